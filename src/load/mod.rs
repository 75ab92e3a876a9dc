//! Loader workers: the rows that a table had when the mirror began to follow it.
