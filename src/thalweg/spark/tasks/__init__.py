"""What runs inside Spark's tasks, and how chunks come there and back."""
