"""Define tools that process whole graphs: shapes, partitions, drawings."""
