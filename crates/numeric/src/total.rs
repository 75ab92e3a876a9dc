//! Sums and averages, with the same results as PostgreSQL's aggregates.

use crate::add::aligned;
use crate::digits::{BASE, Digits};
use crate::power;
use crate::value::{Error, Long, Numeric, Repr};

/// A sum that is exact, whatever the order of its addends. Its display scale is the largest display scale of any
/// addend.
#[derive(Clone, Debug, Default)]
pub struct Total {
    /// The number of addends that are finite.
    finite: u64,
    /// The sum of those finite addends for which it does not overflow, as an integer with the scale `scale`. `rest` has
    /// the sum of all other addends.
    sum: i128,
    scale: u16,
    /// The largest display scale of an addend.
    shown: u16,
    rest: Option<Box<Rest>>,
}

/// The parts of a sum that are rarely needed.
#[derive(Clone, Debug, Default)]
struct Rest {
    nan: u64,
    infinite: u64,
    negative_infinite: u64,
    /// The sum of finite addends that did not fit `Total::sum`, as base-10000 digits. Each digit has its own sign until
    /// carries are resolved.
    digits: Vec<i64>,
    /// The weight of the first element of `digits`, which is the least significant digit.
    bottom: i32,
    /// The number of values that were added to `digits` since carries were last resolved.
    pending: u64,
}

/// The greatest number of values that may be added before carries are resolved. The sum of so many digits, each below
/// 2^14, fits 63 bits.
const MOST_PENDING: u64 = 1 << 48;

impl Total {
    #[inline]
    pub fn add(&mut self, value: &Numeric) {
        match value.0 {
            // Nearly always, the value has the same scale as the sum.
            Repr::Small { mantissa, scale } if scale == self.scale => match self.sum.checked_add(mantissa) {
                Some(sum) => {
                    self.sum = sum;
                    self.finite += 1;
                }
                None => self.add_times(value, 1),
            },
            _ => self.add_times(value, 1),
        }
    }

    /// Adds a value `times` times at once.
    pub fn add_times(&mut self, value: &Numeric, times: u64) {
        if times == 0 {
            return;
        }
        match value.scale() {
            Some(scale) => {
                self.finite += times;
                self.shown = self.shown.max(scale);
                self.add_finite(value, times as i128);
            }
            None => *self.special(value) += times,
        }
    }

    /// Removes an addend. It need not have been added to this total itself; it may come from a total that was merged
    /// into it. The display scale does not change.
    pub fn remove(&mut self, value: &Numeric) {
        match value.scale() {
            Some(scale) => {
                self.finite = self.finite.wrapping_sub(1);
                self.shown = self.shown.max(scale);
                self.add_finite(value, -1);
            }
            None => {
                let count = self.special(value);
                *count = count.wrapping_sub(1);
            }
        }
    }

    /// Adds another total.
    pub fn merge(&mut self, other: &Total) {
        self.finite = self.finite.wrapping_add(other.finite);
        self.shown = self.shown.max(other.shown);
        self.add_finite(&Numeric::small(other.sum, other.scale), 1);
        if let Some(rest) = &other.rest {
            let own = self.rest.get_or_insert_default();
            own.nan = own.nan.wrapping_add(rest.nan);
            own.infinite = own.infinite.wrapping_add(rest.infinite);
            own.negative_infinite = own.negative_infinite.wrapping_add(rest.negative_infinite);
            if let Some(long) = rest.long() {
                own.add(&long);
            }
        }
    }

    /// The number of addends.
    pub fn count(&self) -> u64 {
        self.finite + self.rest.as_ref().map_or(0, |rest| rest.nan + rest.infinite + rest.negative_infinite)
    }

    /// The sum; `None` if there are no addends.
    pub fn sum(&self) -> Option<Result<Numeric, Error>> {
        (self.count() != 0).then(|| self.value().checked())
    }

    /// The average of the addends; `None` if there are none.
    pub fn average(&self) -> Option<Result<Numeric, Error>> {
        (self.count() != 0).then(|| {
            let sum = self.value().checked()?;
            if sum.is_finite() { sum.div(&Numeric::small(self.finite as i128, 0)) } else { Ok(sum) }
        })
    }

    pub fn heap_bytes(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| size_of::<Rest>() + rest.digits.capacity() * size_of::<i64>())
    }

    fn special(&mut self, value: &Numeric) -> &mut u64 {
        let rest = self.rest.get_or_insert_default();
        match value.direction() {
            Some(-1) => &mut rest.negative_infinite,
            Some(_) => &mut rest.infinite,
            None => &mut rest.nan,
        }
    }

    fn add_finite(&mut self, value: &Numeric, times: i128) {
        if let Repr::Small { mantissa, scale } = value.0
            && let Some(addend) = power::multiply(mantissa, times)
        {
            if let Some((sum, addend, scale)) = aligned(self.sum, self.scale, addend, scale)
                && let Some(sum) = sum.checked_add(addend)
            {
                (self.sum, self.scale) = (sum, scale);
                return;
            }
            // The sum so far is moved to `digits`, so that the present addend fits.
            let before = Numeric::small(std::mem::replace(&mut self.sum, addend), self.scale);
            self.scale = scale;
            self.add_long(&before);
        } else {
            self.add_long(&value.times(&Numeric::small(times, 0)));
        }
    }

    fn add_long(&mut self, value: &Numeric) {
        if let Some(long) = value.long() {
            self.rest.get_or_insert_default().add(&long);
        }
    }

    fn value(&self) -> Numeric {
        let own = Numeric::small(self.sum, self.scale);
        let Some(rest) = &self.rest else { return own.round(self.shown as i32) };
        match (rest.nan, rest.infinite, rest.negative_infinite) {
            (0, 0, 0) => {}
            (0, _, 0) => return Numeric::INFINITY,
            (0, 0, _) => return Numeric::NEGATIVE_INFINITY,
            _ => return Numeric::NAN,
        }
        let mut all = rest.clone();
        if let Some(own) = own.long() {
            all.add(&own);
        }
        let digits = all.long().map(|sum| Numeric::from_digits(sum.negative, sum.weight, sum.digits, self.shown));
        digits.unwrap_or(Numeric::small(0, self.shown))
    }
}

impl Rest {
    fn add(&mut self, value: &Long) {
        if value.digits.is_empty() {
            return;
        }
        let bottom = value.weight - value.digits.len() as i32 + 1;
        if self.digits.is_empty() {
            self.bottom = bottom;
        } else if bottom < self.bottom {
            let missing = (self.bottom - bottom) as usize;
            self.digits.splice(..0, std::iter::repeat_n(0, missing));
            self.bottom = bottom;
        }
        let top = (value.weight - self.bottom + 1) as usize;
        if top > self.digits.len() {
            self.digits.resize(top, 0);
        }
        let places = &mut self.digits[(bottom - self.bottom) as usize..top];
        let sign = if value.negative { -1 } else { 1 };
        for (place, &digit) in places.iter_mut().zip(value.digits.iter().rev()) {
            *place += sign * digit as i64;
        }
        self.pending += 1;
        if self.pending >= MOST_PENDING {
            self.carry();
        }
    }

    /// Resolves the carries of all digits except the most significant digit, whose sign is the sign of the sum.
    fn carry(&mut self) {
        let base = BASE as i64;
        let mut carry = 0;
        for digit in &mut self.digits {
            let sum = *digit + carry;
            *digit = sum.rem_euclid(base);
            carry = sum.div_euclid(base);
        }
        while carry != 0 && carry != -1 {
            self.digits.push(carry.rem_euclid(base));
            carry = carry.div_euclid(base);
        }
        if carry == -1 {
            self.digits.push(-1);
        }
        self.pending = 1;
    }

    /// The sum in `digits`; `None` if it is zero.
    fn long(&self) -> Option<Long> {
        let mut proper = self.clone();
        proper.carry();
        let negative = proper.digits.last().is_some_and(|&d| d < 0);
        if negative {
            proper.digits.iter_mut().for_each(|d| *d = -*d);
            proper.carry();
        }
        let mut digits = Digits::zeros(proper.digits.len());
        for (digit, &sum) in digits.iter_mut().zip(proper.digits.iter().rev()) {
            *digit = sum as u16;
        }
        let weight = proper.bottom + digits.len() as i32 - 1;
        let (digits, zeros) = digits.stripped();
        (!digits.is_empty()).then(|| Long { negative, digits, weight: weight - zeros as i32, scale: 0 })
    }
}
