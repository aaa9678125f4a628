"""Ordered bytes: in RocksDB, and in memory for tests."""
