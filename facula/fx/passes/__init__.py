"""Tools that look at graphs as a whole: shapes, partitions, drawings."""
