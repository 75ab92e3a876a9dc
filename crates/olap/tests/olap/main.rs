//! Tests that compare the engine's answers with the documented semantics.

mod build;
mod conditional;
mod conversions;
mod dense;
mod directed;
mod float_bounds;
mod floats;
mod forked;
mod functions;
mod fused;
mod generator;
mod interpreter;
mod intervals;
mod level;
mod locales;
mod measure;
mod moments;
mod numerics;
mod ordered;
mod random;
mod ranges;
mod runtime;
mod shared;
mod stored;
mod table;
mod times;
