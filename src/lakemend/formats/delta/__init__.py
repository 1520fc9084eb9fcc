"""The Delta Lake format: log → snapshot, change → commit."""
