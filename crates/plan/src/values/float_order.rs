//! Floats as integers in PostgreSQL's order, in which 0 equals -0, and all NaNs are equal and greater than infinity.

/// The float that stands for all floats equal to `value`: 0 for -0, and a single NaN.
pub fn canonical(value: f64) -> f64 {
    // Adding 0 turns -0 into 0 and changes nothing else.
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// The rank of a float: an integer that is greater for a greater float, and equal for an equal one.
pub fn rank(value: f64) -> i64 {
    place(canonical(value).to_bits() as i64)
}

/// The float that has a rank.
pub fn of_rank(rank: i64) -> f64 {
    f64::from_bits(place(rank) as u64)
}

/// The place of a float in IEEE's total order, computed from its bits. Floats that PostgreSQL considers equal may have
/// different places. The function is its own inverse.
#[inline]
pub fn place(bits: i64) -> i64 {
    // If the float is negative, all bits except the sign are flipped.
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// The ranks of the floats whose places lie between two places. If there are none, the first rank is greater than the
/// second.
pub fn ranks_between(low: i64, high: i64) -> (i64, i64) {
    if low > high {
        return (i64::MAX, i64::MIN);
    }
    let [first, last] = [low, high].map(of_rank);
    match first.is_nan() && low < 0 {
        // Negative NaNs have the lowest places, but their rank is the highest.
        true => (rank(f64::NEG_INFINITY), rank(f64::NAN)),
        false => (rank(first), rank(last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_ORDER: [f64; 10] =
        [f64::NEG_INFINITY, f64::MIN, -1.5, -f64::MIN_POSITIVE, 0.0, 5e-324, 1.0, 1e300, f64::INFINITY, f64::NAN];
    const NEGATIVE_NAN: f64 = f64::from_bits(0xfff8_0000_0000_0000);

    #[test]
    fn ranks_are_in_the_order_of_floats() {
        assert!(IN_ORDER.windows(2).all(|pair| rank(pair[0]) < rank(pair[1])));
        assert_eq!((rank(-0.0), rank(NEGATIVE_NAN)), (rank(0.0), rank(f64::NAN)));
        for value in IN_ORDER {
            assert_eq!(of_rank(rank(value)).to_bits(), value.to_bits());
        }
    }

    #[test]
    fn floats_lie_between_the_ranks_of_their_places() {
        let hostile = [-0.0, NEGATIVE_NAN, f64::from_bits(u64::MAX), f64::from_bits(u64::MAX >> 1)];
        let all: Vec<f64> = IN_ORDER.into_iter().chain(hostile).collect();
        for one in &all {
            for other in &all {
                let places = [one, other].map(|value| place(value.to_bits() as i64));
                let (low, high) = ranks_between(places[0].min(places[1]), places[0].max(places[1]));
                let ranks = [rank(*one), rank(*other)];
                assert!(ranks.iter().all(|rank| (low..=high).contains(rank)), "{one} and {other}");
                if [one, other].iter().all(|value| !value.is_nan() || value.is_sign_positive()) {
                    assert_eq!((low, high), (ranks[0].min(ranks[1]), ranks[0].max(ranks[1])));
                }
            }
        }
        let (low, high) = ranks_between(i64::MAX, i64::MIN);
        assert!(low > high);
    }
}
