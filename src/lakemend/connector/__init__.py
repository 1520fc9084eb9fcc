"""The Scala sources of the Spark connector, and what builds them."""
