"""Where Spark runs: sessions, Java, clusters on this machine, executors and what passes between them."""
