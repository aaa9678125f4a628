"""What a program tells of itself: logs, metrics, traces."""
