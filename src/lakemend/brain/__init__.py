"""What the connector calls: load, plan, commit, alter. Plain Python, no Spark."""
