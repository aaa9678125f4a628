"""Stores of ordered bytes: in RocksDB, and in memory for tests."""
