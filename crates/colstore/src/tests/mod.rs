mod heap;
mod model;
mod rig;
