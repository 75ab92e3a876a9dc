//! Estimates for the join order: the number of distinct values in a column, and of rows that pass a filter. They are
//! computed on a sample of rows from some chunks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use colstore::{ChunkRows, TableView};
use optimizer::join_order::{self, Choice, MAX_RELATIONS, Relation, Statistics};
use plan::{ColumnId, Expr, JoinKind, Literal, Plan, Rel};

use super::parts::Parts;
use super::runtime_filters::asked_column;
use crate::base::arrow_form::arrow_type;
use crate::expr::{Lowering, column_name};
use crate::operators::scan::some_rows;

/// The number of chunks that are sampled.
const CHUNKS: usize = 16;
/// The number of rows that are sampled from each chunk.
const ROWS: usize = 256;

/// The assumed share of rows that pass a filter, or that have a partner.
const FILTERED: f64 = 0.3;
const PARTNERED: f64 = 0.5;
/// The assumed number of elements in a list.
const UNFOLDED: f64 = 4.0;
/// The assumed number of rows in a group.
const GROUPED: f64 = 10.0;

/// Statistics of the tables behind a plan's columns.
pub struct Sampled<'a> {
    plan: &'a Plan,
    params: &'a [Option<Literal>],
    views: &'a [Arc<dyn TableView>],
    /// For each column that a scan returns: the scan's index in `scans`, and the column's position in the scan.
    places: HashMap<ColumnId, (usize, usize)>,
    scans: Vec<Scan<'a>>,
    /// The sample of each relation, taken when it is first needed.
    samples: RefCell<HashMap<u16, Option<Sample>>>,
    /// The number of distinct values in a column of a relation, estimated when it is first needed.
    distinct: RefCell<HashMap<(u16, usize), f64>>,
}

struct Scan<'a> {
    relation: u16,
    columns: &'a [ColumnId],
}

/// Some rows of a relation.
struct Sample {
    /// The sampled rows that the user may see.
    rows: RecordBatch,
    /// The share of visible rows among the sampled ones.
    visible: f64,
}

/// Statistics of filters only, without the numbers of distinct values. They suffice if there is only one join order.
pub struct FiltersOnly<'a>(pub &'a Sampled<'a>);

impl Statistics for FiltersOnly<'_> {
    fn distinct(&self, _: &Expr) -> Option<f64> {
        None
    }

    fn passing(&self, conditions: &[&Expr]) -> Option<f64> {
        self.0.passing(conditions)
    }

    fn is_asked_for(&self, _: &Expr) -> bool {
        false
    }
}

impl<'a> Sampled<'a> {
    pub fn new(plan: &'a Plan, params: &'a [Option<Literal>], views: &'a [Arc<dyn TableView>]) -> Sampled<'a> {
        let (mut places, mut scans) = (HashMap::new(), Vec::new());
        plan.root.visit(&mut |rel| {
            if let Rel::Scan { relation, columns } = rel {
                places.extend((0..).zip(columns).map(|(at, id)| (*id, (scans.len(), at))));
                scans.push(Scan { relation: *relation, columns });
            }
        });
        Sampled { plan, params, views, places, scans, samples: RefCell::default(), distinct: RefCell::default() }
    }

    /// The share of sampled rows that meet the conditions; `None` if there is no sample, or if a condition raises an
    /// error.
    fn share(&self, scan: &Scan<'_>, conditions: &[&Expr]) -> Option<f64> {
        self.with_sample(scan, |sample| self.passed(scan, conditions, sample))?
    }

    /// Calls `f` with the sample, if it has rows that the user may see.
    fn with_sample<T>(&self, scan: &Scan<'_>, f: impl FnOnce(&Sample) -> T) -> Option<T> {
        let mut samples = self.samples.borrow_mut();
        let sample = samples.entry(scan.relation).or_insert_with(|| self.sample(scan));
        sample.as_ref().filter(|sample| sample.rows.num_rows() > 0).map(f)
    }

    fn passed(&self, scan: &Scan<'_>, conditions: &[&Expr], sample: &Sample) -> Option<f64> {
        let result = self.evaluated(scan, conditions, &sample.rows)?;
        let passed = result.as_boolean().true_count() as f64;
        // Half a row is added, because other rows may pass even if no sampled row does.
        Some((passed + 0.5) / (sample.rows.num_rows() as f64 + 1.0))
    }

    /// Whether each row meets all conditions.
    fn evaluated(&self, scan: &Scan<'_>, conditions: &[&Expr], rows: &RecordBatch) -> Option<ArrayRef> {
        let lowering = Lowering { plan: self.plan, params: self.params, columns: scan.columns, known: &[] };
        lowering.all(conditions).ok()?.evaluate(rows).ok()?.into_array(rows.num_rows()).ok()
    }

    /// Takes a sample of a scan's rows. It leaves out rows that the user may not see, because they must not influence
    /// estimates.
    fn sample(&self, scan: &Scan<'_>) -> Option<Sample> {
        let rows = self.any_rows(scan)?;
        let visible_if: Vec<&Expr> = self.plan.relations[scan.relation as usize].visible_if.iter().collect();
        if visible_if.is_empty() {
            return Some(Sample { rows, visible: 1.0 });
        }
        let all = rows.num_rows() as f64;
        let rows = filter_record_batch(&rows, self.evaluated(scan, &visible_if, &rows)?.as_boolean()).ok()?;
        let visible = (rows.num_rows() as f64 + 0.5) / (all + 1.0);
        Some(Sample { rows, visible })
    }

    fn any_rows(&self, scan: &Scan<'_>) -> Option<RecordBatch> {
        let view = &self.views[scan.relation as usize];
        let columns = scan.columns.iter().zip(&self.plan.relations[scan.relation as usize].columns);
        let fields = columns.map(|(id, ty)| Field::new(column_name(*id), arrow_type(*ty), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut batches = Vec::new();
        for index in (0..view.chunk_count()).step_by(step(view.as_ref())) {
            let Some(rows) = sampled_rows(view.as_ref(), index) else { continue };
            let arrays = (0..scan.columns.len()).map(|column| some_rows(view.as_ref(), index, column, &rows));
            let arrays = arrays.collect::<Result<Vec<_>, _>>();
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            batches.push(RecordBatch::try_new_with_options(schema.clone(), arrays.ok()?, &options).ok()?);
        }
        concat_batches(&schema, &batches).ok()
    }

    /// The number of rows that the user may see; exact if the user may see all.
    fn visible_rows(&self, relation: u16) -> f64 {
        let all = self.views[relation as usize].row_count() as f64;
        let hides = !self.plan.relations[relation as usize].visible_if.is_empty();
        let scan = self.scans.iter().find(|scan| hides && scan.relation == relation);
        all * scan.map_or(1.0, |scan| self.with_sample(scan, |sample| sample.visible).unwrap_or(FILTERED))
    }

    /// The number of distinct values in a column, among the rows that the user may see.
    fn values(&self, scan: &Scan<'_>, at: usize) -> f64 {
        let view = &self.views[scan.relation as usize];
        if self.plan.relations[scan.relation as usize].visible_if.is_empty() {
            return sampled(view.as_ref(), at);
        }
        let mut seen = Seen::default();
        self.with_sample(scan, |sample| seen.add(sample.rows.column(at)));
        seen.values(self.visible_rows(scan.relation))
    }

    /// The estimates of one relation, on which the choice of the join order is based.
    pub fn relation(&self, rel: &Rel) -> Relation {
        Relation { rows: self.rows(rel), key: self.key(rel) }
    }

    /// The number of rows that an operator returns; exact for a table.
    pub fn rows(&self, rel: &Rel) -> f64 {
        if let Rel::Filter { .. } | Rel::Join { kind: JoinKind::Inner, .. } = rel
            && let Some(rows) = self.joined_rows(rel)
        {
            return rows;
        }
        match rel {
            Rel::Scan { relation, .. } => self.visible_rows(*relation),
            Rel::Filter { input, conditions } => {
                let tried = self.passing(&conditions.iter().collect::<Vec<_>>());
                self.rows(input) * tried.unwrap_or(FILTERED.powi(conditions.len() as i32))
            }
            Rel::Row => 1.0,
            Rel::Map { input, .. } | Rel::Window { input, .. } => self.rows(input),
            Rel::Unfold { input, .. } => self.rows(input) * UNFOLDED,
            Rel::Join { kind: JoinKind::Semi | JoinKind::Anti, left, .. } => self.rows(left) * PARTNERED,
            Rel::Join { kind: JoinKind::Mark(_), left, .. } | Rel::Apply { left, .. } => self.rows(left),
            Rel::Join { conditions, left, right, .. } if conditions.is_empty() => self.rows(left) * self.rows(right),
            // Most joins follow a foreign key. Such a join returns about as many rows as its larger side has.
            Rel::Join { left, right, .. } => self.rows(left).max(self.rows(right)),
            Rel::Union { inputs, .. } => inputs.iter().map(|part| self.rows(&part.rel)).sum(),
            Rel::Aggregate { keys, .. } if keys.is_empty() => 1.0,
            Rel::Aggregate { input, .. } => self.groups(input),
            Rel::GroupingSets { input, grouping } => self.groups(input) * grouping.sets.len() as f64,
            Rel::Top { input, keys, range, .. } => match &range.count {
                Some(Expr::Literal { value: Some(Literal::Int(count)), .. }) if keys.is_empty() => {
                    self.rows(input).min(*count as f64)
                }
                _ if keys.is_empty() => self.rows(input),
                _ => self.groups(input),
            },
        }
    }

    /// Estimates the rows of a block of joined relations. This is the join order's estimate, unless the largest
    /// relation has more rows. Then it is the geometric mean of both numbers, because joins often yield more rows than
    /// estimated. A join's smaller side must fit into memory, so it must not be taken for far smaller than it is.
    fn joined_rows(&self, rel: &Rel) -> Option<f64> {
        let Parts { relations, conditions, classes, owners } = Parts::of(rel);
        if !(2..=MAX_RELATIONS).contains(&relations.len()) {
            return None;
        }
        let known: Vec<_> = relations.iter().map(|rel| self.relation(rel)).collect();
        let tree = join_order::order(&known, &classes, &conditions, &owners, self, Choice::Quick);
        let largest = tree.largest_scan();
        Some(if tree.rows < largest { (tree.rows.max(1.0) * largest).sqrt() } else { tree.rows })
    }

    /// The expected number of groups if the rows of `rel` are grouped by keys.
    pub fn groups(&self, rel: &Rel) -> f64 {
        (self.rows(rel) / GROUPED).max(1.0)
    }

    /// A set of columns whose values differ between any two rows.
    fn key(&self, rel: &Rel) -> Option<Vec<ColumnId>> {
        match rel {
            Rel::Scan { relation, columns } => {
                let key = self.views[*relation as usize].key()?;
                Some(key.iter().map(|&at| columns[at]).collect())
            }
            Rel::Filter { input, .. } | Rel::Map { input, .. } | Rel::Top { input, .. } | Rel::Window { input, .. } => {
                self.key(input)
            }
            Rel::Join { kind: JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_), left, .. } => self.key(left),
            Rel::Row | Rel::Join { .. } | Rel::Apply { .. } | Rel::Union { .. } => None,
            Rel::GroupingSets { .. } | Rel::Unfold { .. } => None,
            Rel::Aggregate { keys, .. } => Some(keys.iter().map(|key| key.column).collect()),
        }
    }
}

impl Statistics for Sampled<'_> {
    fn distinct(&self, expr: &Expr) -> Option<f64> {
        let column = match expr {
            Expr::Cast { arg, .. } => arg,
            other => other,
        };
        let Expr::Column { id } = column else { return None };
        let &(scan, at) = self.places.get(id)?;
        let relation = self.scans[scan].relation;
        let view = &self.views[relation as usize];
        Some(match view.key() == Some(&[at]) {
            true => self.visible_rows(relation),
            false => {
                let mut distinct = self.distinct.borrow_mut();
                *distinct.entry((relation, at)).or_insert_with(|| self.values(&self.scans[scan], at))
            }
        })
    }

    fn passing(&self, conditions: &[&Expr]) -> Option<f64> {
        let mut read = conditions.iter().flat_map(|c| c.columns()).map(|id| self.places.get(&id));
        let scan = read.next()??.0;
        match read.all(|place| place.is_some_and(|place| place.0 == scan)) {
            true => self.share(&self.scans[scan], conditions),
            false => None,
        }
    }

    fn is_asked_for(&self, expr: &Expr) -> bool {
        let column = asked_column(self.plan, expr, self.plan.type_of(expr));
        column.is_some_and(|column| self.places.contains_key(&column))
    }
}

/// The distance from one sampled chunk to the next.
fn step(view: &dyn TableView) -> usize {
    view.chunk_count().div_ceil(CHUNKS).max(1)
}

/// The sampled rows of a chunk; `None` if there is no memory for them.
fn sampled_rows(view: &dyn TableView, index: usize) -> Option<Vec<u32>> {
    let ChunkRows { count, live } = view.rows(index).ok()?;
    let is_live = |row: &usize| live.as_ref().is_none_or(|live| live.value(*row));
    Some((0..count).step_by(count.div_ceil(ROWS).max(1)).filter(is_live).map(|row| row as u32).collect())
}

fn sampled(view: &dyn TableView, col: usize) -> f64 {
    let mut seen = Seen::default();
    for index in (0..view.chunk_count()).step_by(step(view)) {
        // Without memory, the estimate uses fewer rows.
        let Some(wanted) = sampled_rows(view, index) else { continue };
        let Ok(array) = some_rows(view, index, col, &wanted) else { continue };
        seen.add(&array);
    }
    seen.values(view.row_count() as f64)
}

/// The number of times that each value was seen.
#[derive(Default)]
struct Seen {
    hasher: RandomState,
    times: HashMap<u64, u32>,
    rows: usize,
}

impl Seen {
    fn add(&mut self, values: &ArrayRef) {
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            *self.times.entry(image(values, row, &self.hasher)).or_default() += 1;
            self.rows += 1;
        }
    }

    /// The estimated number of distinct values among all rows.
    fn values(&self, all_rows: f64) -> f64 {
        let once = self.times.values().filter(|&&times| times == 1).count();
        extrapolated(self.rows as f64, self.times.len() as f64, once as f64, all_rows)
    }
}

/// The estimated number of distinct values, from the sample's rows, its distinct values, and the values that it
/// contains once. It is Haas and Stokes' estimator, which PostgreSQL uses, too.
fn extrapolated(rows: f64, values: f64, once: f64, all_rows: f64) -> f64 {
    if rows == 0.0 {
        return 1.0;
    }
    let estimate = rows * values / (rows - once + once * rows / all_rows.max(rows));
    estimate.clamp(values, all_rows.max(values))
}

/// A hash of a value. Equal values have equal hashes, and different values nearly always different ones.
fn image(array: &ArrayRef, row: usize, hasher: &RandomState) -> u64 {
    fn hash(value: impl Hash, hasher: &RandomState) -> u64 {
        hasher.hash_one(value)
    }
    match array.data_type() {
        DataType::Int16 => hash(array.as_primitive::<Int16Type>().value(row), hasher),
        DataType::Int32 => hash(array.as_primitive::<Int32Type>().value(row), hasher),
        DataType::Int64 => hash(array.as_primitive::<Int64Type>().value(row), hasher),
        DataType::Float64 => hash(array.as_primitive::<Float64Type>().value(row).to_bits(), hasher),
        DataType::Decimal128(..) => hash(array.as_primitive::<Decimal128Type>().value(row), hasher),
        DataType::Utf8View => hash(array.as_string_view().value(row), hasher),
        DataType::BinaryView => hash(array.as_binary_view().value(row), hasher),
        DataType::Boolean => hash(array.as_boolean().value(row), hasher),
        // A view has no column of another type.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use colstore::{Chunk, OutOfMemory};
    use plan::{Relation, RelationColumn, Type};

    use super::*;

    /// One chunk of numbers.
    #[derive(Debug)]
    struct Numbers(Vec<i64>);

    impl TableView for Numbers {
        fn types(&self) -> &[Type] {
            &[Type::Int64]
        }

        fn row_count(&self) -> u64 {
            self.0.len() as u64
        }

        fn chunk_count(&self) -> usize {
            1
        }

        fn chunk(&self, _: usize) -> Result<Chunk, OutOfMemory> {
            let numbers: ArrayRef = Arc::new(Int64Array::from(self.0.clone()));
            Ok(Chunk { rows: self.0.len(), arrays: vec![numbers], live: None })
        }
    }

    /// The expected number of rows of an inner join of two tables by their only columns.
    fn joined_rows(left: Vec<i64>, right: Vec<i64>) -> f64 {
        let number = RelationColumn { attnum: 1, ty: Type::Int64 };
        let scan = |relation| Rel::Scan { relation, columns: vec![ColumnId(relation)] };
        let [a, b] = [0, 1].map(|id| Expr::column(ColumnId(id)));
        let plan = Plan {
            relations: vec![Relation::of_table(1, &[number]), Relation::of_table(2, &[number])],
            columns: vec![Type::Int64; 2],
            params: vec![],
            root: scan(0).join(JoinKind::Inner, scan(1), vec![Expr::equal(a.clone(), b)]),
            output: vec![a],
        };
        let views: [Arc<dyn TableView>; 2] = [Arc::new(Numbers(left)), Arc::new(Numbers(right))];
        Sampled::new(&plan, &[], &views).rows(&plan.root)
    }

    #[test]
    fn joined_rows_go_by_the_keys() {
        // Each row has a hundred partners.
        let tens = || (0..1000).map(|i| i / 100).collect::<Vec<i64>>();
        let many = joined_rows(tens(), tens());
        assert!((90_000.0..110_000.0).contains(&many), "{many}");
        // From the numbers of distinct keys, about ten rows would be expected. The estimate is the geometric mean of
        // this number and the larger table's thousand rows.
        let few = joined_rows((0..1000).collect(), (0..10).collect());
        assert!((50.0..500.0).contains(&few), "{few}");
    }

    #[test]
    fn few_values_are_counted_and_many_extrapolated() {
        assert_eq!(extrapolated(4096.0, 25.0, 0.0, 6e6), 25.0);
        assert_eq!(extrapolated(4096.0, 4096.0, 4096.0, 6e6), 6e6);
        assert_eq!(extrapolated(0.0, 0.0, 0.0, 0.0), 1.0);
        // 10,000 evenly distributed values: 4,096 rows contain about 3,360 of them, and 2,719 of these once.
        let estimate = extrapolated(4096.0, 3360.0, 2719.0, 6e6);
        assert!((7_000.0..14_000.0).contains(&estimate), "{estimate}");
    }
}
