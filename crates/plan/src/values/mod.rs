//! Values that the extension and the engine must compute in the same way.
//!
//! | file | job |
//! |---|---|
//! | `image` | numbers of the engine that are bytes of fixed length in PostgreSQL |
//! | `interval` | intervals as numbers of 128 bits |
//! | `numeric` | conversion of PostgreSQL's numeric from and to scaled integers |
//! | `zone` | time zones as tables |
//! | `pattern`, `regular` | patterns of `to_char`, regular expressions |
//! | `float_order`, `text_order` | floats and texts as integers in their order |

pub mod float_order;
pub mod image;
pub mod interval;
pub mod numeric;
pub mod pattern;
pub mod regular;
pub mod text_order;
pub mod zone;
