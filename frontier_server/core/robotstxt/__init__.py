"""robots.txt: its rules, the state of each authority's, and the table of all."""
