"""Work in slices: what a job is, and each kind of job."""
