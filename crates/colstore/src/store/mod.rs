//! Every mirrored table of a database, and the forked children that read them.

pub mod forks;
