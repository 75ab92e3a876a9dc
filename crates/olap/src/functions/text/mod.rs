//! Functions of texts.

pub mod calls;
pub mod like;
pub mod md5;
pub mod regular;
