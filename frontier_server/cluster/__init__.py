"""Several machines that serve one frontier from one bucket.

`identity` is what all of them share for ever, `claims` decides who serves which shard, and `members` tells
each machine of the others, by objects in the bucket that each renews.
"""
