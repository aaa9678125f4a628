"""robots.txt: its rules, what an authority's allows now, and the table of all."""
