"""How inputs come to Spark's tasks: frames, files and logs."""
