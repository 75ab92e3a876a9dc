use std::sync::Arc;

use arrow_array::{Int16Array, Int32Array, Int64Array};
use datafusion_execution::TaskContext;
use datafusion_execution::memory_pool::GreedyMemoryPool;
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use futures::task::noop_waker;

use super::*;

fn context(bytes: usize) -> TaskContext {
    let runtime =
        RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(bytes))).build_arc().unwrap();
    TaskContext::default().with_runtime(runtime)
}

fn noted(keys: &[i64], context: &TaskContext) -> Option<Noted> {
    let mut noted = Noted::new(context);
    let has_room = noted.has_room_for(keys.len());
    noted.keys.extend(keys);
    has_room.then_some(noted)
}

fn known(keys: &[i64]) -> Arc<JoinKeys> {
    let (known, context) = (JoinKeys::default(), context(1 << 30));
    known.add(noted(keys, &context), 1, &context);
    Arc::new(known)
}

fn is_known(keys: &JoinKeys) -> bool {
    keys.poll_known(&mut Context::from_waker(&noop_waker())).is_ready()
}

fn passed(keys: &[i64], asked: &[Option<i64>]) -> Vec<bool> {
    let asked: ArrayRef = Arc::new(Int64Array::from(asked.to_vec()));
    KeyTest::new(0, known(keys)).passed(&asked).unwrap().iter().collect()
}

const EXTREMES: [i64; 6] = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX];

#[test]
fn rows_with_a_partner_always_pass() {
    let dense: Vec<i64> = (0..1000).map(|key| 7 * key - 3000).collect();
    let wide: Vec<i64> = (0..100_000_i64).map(|key| key.wrapping_mul(0x1234_5678_9abc_def1)).collect();
    for keys in [&dense[..], &wide, &EXTREMES, &[5], &[i64::MAX], &[i64::MIN]] {
        let asked: Vec<Option<i64>> = keys.iter().copied().map(Some).collect();
        assert!(passed(keys, &asked).into_iter().all(|passed| passed));
    }
}

#[test]
fn few_others_pass() {
    // An exact set distinguishes all numbers between the least and the greatest key. Numbers outside of this range, and
    // nulls, do not pass.
    let asked: Vec<Option<i64>> = (0..100).map(Some).chain(EXTREMES.map(Some)).chain([None]).collect();
    let expected: Vec<bool> = asked.iter().map(|key| matches!(key, Some(20 | 30 | 50))).collect();
    assert_eq!(passed(&[20, 50, 30, 30], &asked), expected);
    assert!(passed(&[], &asked).into_iter().all(|passed| !passed));
    // Keys that are far apart are put into a Bloom filter, which few other values pass.
    for count in [57, 5_000, 300_000] {
        let keys: Vec<i64> = (0..count).map(|key| key << 40).collect();
        let others: Vec<Option<i64>> = (0..100_000).map(|key| Some(key << 20 | 1)).collect();
        let found = passed(&keys, &others).into_iter().filter(|passed| *passed).count();
        assert!(found < others.len() / 20, "{found} of {count} keys");
    }
}

#[test]
fn keys_of_every_width_are_asked() {
    let test = KeyTest::new(0, known(&[-1, 3]));
    let arrays: [ArrayRef; 3] = [
        Arc::new(Int16Array::from(vec![-1, 2, 3])),
        Arc::new(Int32Array::from(vec![-1, 2, 3])),
        Arc::new(Int64Array::from(vec![-1, 2, 3])),
    ];
    for array in arrays {
        assert_eq!(test.passed(&array).unwrap().iter().collect::<Vec<_>>(), [true, false, true]);
    }
}

#[test]
fn ranges_without_keys_are_known() {
    let context = context(1 << 20);
    let members = Members::of(&[&[-70, 0], &[63, 64, 200]], reservation(&context)).unwrap();
    for (low, high) in [(-70, -70), (0, 0), (1, 63), (64, 64), (65, 200), (-1000, 1000), (i128::MIN, i128::MAX)] {
        assert!(members.has_within(low, high), "{low} to {high}");
    }
    for (low, high) in [(-1000, -71), (-69, -1), (1, 62), (65, 199), (201, 300), (100, 100)] {
        assert!(!members.has_within(low, high), "{low} to {high}");
    }
    let wide = Members::of(&[&EXTREMES], reservation(&context)).unwrap();
    assert!(wide.has_within(i64::MIN.into(), i64::MAX.into()) && wide.has_within(5, 9));
    let none = Members::of(&[], reservation(&context)).unwrap();
    assert!(!none.has_within(i128::MIN, i128::MAX));
}

#[test]
fn keys_are_few_of_many_numbers() {
    let context = context(1 << 20);
    let few = |keys: &[i64], low, high| Members::of(&[keys], reservation(&context)).unwrap().are_few_of(low, high, FEW);
    assert!(few(&[5, 900], 1, 1000) && few(&[], 1, 2) && few(&[i64::MIN], i64::MIN.into(), i64::MAX.into()));
    assert!(!few(&[5, 9], 1, 30) && !few(&[7], 7, 7));
    // Keys that are so far apart may be the only values in the range.
    assert!(!few(&[0, 1 << 50], 0, 1 << 50));
    // A range may reach beyond 64 bits.
    assert!(few(&[5, 9], i128::MIN, 5) && few(&[5, 9], -5, i128::MAX));
}

#[test]
fn who_has_all_keys_tells_those_who_wait() {
    let (keys, context) = (JoinKeys::default(), context(1 << 20));
    assert!(!is_known(&keys));
    keys.add(noted(&[1], &context), 2, &context);
    assert!(!is_known(&keys) && keys.members().is_none());
    keys.add(noted(&[9], &context), 2, &context);
    assert!(is_known(&keys) && keys.members().unwrap().has_within(9, 9));
}

#[test]
fn keys_that_are_not_all_known_let_every_row_pass() {
    let (gone, rich) = (JoinKeys::default(), context(1 << 20));
    gone.add(None, 2, &rich);
    gone.add(noted(&[1], &rich), 2, &rich);
    let (poor, little) = (JoinKeys::default(), context(20));
    assert!(noted(&[1, 1 << 50, 3], &little).is_none());
    poor.add(noted(&[1, 1 << 50], &little), 1, &little);
    assert_eq!((rich.memory_pool().reserved(), little.memory_pool().reserved()), (0, 0));
    for keys in [gone, poor] {
        assert!(is_known(&keys) && keys.members().is_none());
        let test = KeyTest::new(0, Arc::new(keys));
        assert!(!test.is_worth_it());
        let asked: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        assert_eq!(test.passed(&asked).unwrap().count_set_bits(), 2);
    }
}

#[test]
fn a_partition_that_is_dropped_leaves_nobody_waiting() {
    let (keys, context) = (Arc::new(JoinKeys::default()), Arc::new(context(1 << 20)));
    let key: Arc<dyn PhysicalExpr> = Arc::new(datafusion_physical_expr::expressions::Column::new("k", 0));
    let mut ended = Notes::new(&key, &keys, 2, &context);
    ended.end();
    let dropped = Notes::new(&key, &keys, 2, &context);
    assert!(!is_known(&keys));
    drop(dropped);
    assert!(is_known(&keys) && keys.members().is_none());
}

#[test]
fn a_test_that_most_rows_pass_is_given_up() {
    let test = KeyTest::new(0, known(&[1]));
    let most: ArrayRef = Arc::new(Int64Array::from_value(1, TRIAL_ROWS as usize));
    assert!(test.is_worth_it());
    test.passed(&most).unwrap();
    assert!(!test.is_worth_it());
    let others: ArrayRef = Arc::new(Int64Array::from_value(2, TRIAL_ROWS as usize));
    let test = KeyTest::new(0, known(&[1]));
    test.passed(&others).unwrap();
    assert!(test.is_worth_it());
}
