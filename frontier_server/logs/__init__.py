"""The log files of crawls: crawl.log and job.log, written after the store, checked at the start."""
