//! Pairs of rows that may be partners.

/// Pairs of rows, one from each side, counted from 0.
#[derive(Debug, Default)]
pub struct Pairs {
    pub build: Vec<u32>,
    pub probe: Vec<u32>,
}

impl Pairs {
    #[inline]
    pub fn push(&mut self, build: u32, probe: u32) {
        self.build.push(build);
        self.probe.push(probe);
    }

    pub fn len(&self) -> usize {
        self.build.len()
    }

    pub fn with_capacity(pairs: usize) -> Pairs {
        Pairs { build: Vec::with_capacity(pairs), probe: Vec::with_capacity(pairs) }
    }

    #[inline]
    pub fn retain(&mut self, keep: impl Fn(usize, usize) -> bool) {
        let mut kept = 0;
        for at in 0..self.len() {
            let (build, probe) = (self.build[at], self.probe[at]);
            (self.build[kept], self.probe[kept]) = (build, probe);
            kept += usize::from(keep(build as usize, probe as usize));
        }
        self.build.truncate(kept);
        self.probe.truncate(kept);
    }
}
