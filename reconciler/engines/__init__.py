"""Engine adapters: Java, Spark sessions, and metadata through PySpark."""
