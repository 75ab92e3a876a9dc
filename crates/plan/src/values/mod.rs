//! Values that the extension and the engine must compute in the same way.
//!
//! | file | job |
//! |---|---|
//! | `image` | numbers of the engine that are bytes of fixed length in PostgreSQL |
//! | `interval` | intervals as numbers of 128 bits |
//! | `numeric` | scales of PostgreSQL's numeric |
//! | `zone` | time zones as tables |
//! | `pattern`, `regular` | LIKE patterns, regular expressions |
//! | `float_order`, `text_order` | places of floats and texts in their order |

pub mod float_order;
pub mod image;
pub mod interval;
pub mod numeric;
pub mod pattern;
pub mod regular;
pub mod text_order;
pub mod zone;
