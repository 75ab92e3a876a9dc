//! Arithmetic on the columns of a chunk in 64 bits. No value is checked, because bounds show that none overflows.
//!
//! ```text
//!   price * (1 - discount)     Read(price)  Read(discount)  Combine(Sub, 1, #1)  Combine(Mul, #0, #2)
//! ```
//!
//! A step that several expressions share exists once. If expressions differ by a constant factor and summand, only one
//! is computed: sum(2 * x + 3) is 2 * sum(x) + 3 * count(x). The program runs for a block of rows at a time, so that
//! all values stay in the nearest cache. A register is reused as soon as no later step reads it.

use colstore::Integers;
use colstore::fastest::{Loop, fastest};

use super::rows::Rows;

/// The number of rows that are computed together, a multiple of 64.
pub const BLOCK: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Step(usize),
    Constant(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Sub,
    Mul,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads a column, by its number in the program.
    Read(usize),
    Combine(Op, Operand, Operand),
}

impl Action {
    /// The steps whose values the action reads.
    fn reads(self) -> impl Iterator<Item = usize> {
        let operands = match self {
            Action::Read(_) => [None, None],
            Action::Combine(_, a, b) => [a, b].map(|operand| match operand {
                Operand::Step(step) => Some(step),
                Operand::Constant(_) => None,
            }),
        };
        operands.into_iter().flatten()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    action: Action,
    /// The least value of the result's type; `high` is the greatest. PostgreSQL raises an error for a result outside of
    /// this range.
    low: i64,
    high: i64,
}

#[derive(Debug, Default)]
pub struct Program {
    /// The view's columns that the program reads.
    columns: Vec<usize>,
    steps: Vec<Step>,
    /// The values that are summed.
    outputs: Vec<Output>,
    /// The bases: the steps from whose values the outputs are computed. Several outputs may have the same base.
    bases: Vec<usize>,
    schedule: Schedule,
}

/// An output: the value of a base, by its number, times `factor`, plus `offset`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    step: usize,
    pub base: usize,
    pub factor: i64,
    pub offset: i64,
}

/// Steps in the order in which they are computed.
#[derive(Debug, Default)]
struct Schedule {
    /// A step, and the register for its values.
    steps: Vec<(usize, usize)>,
    /// The register of each step.
    register_of: Vec<usize>,
    registers: usize,
}

/// The bounds of each step's values; `None` if they are not known, or too wide.
pub type Bounds = Vec<Option<(i64, i64)>>;

impl Program {
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    pub fn read(&mut self, column: usize) -> Operand {
        let known = self.columns.iter().position(|other| *other == column);
        let at = known.unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        });
        self.step(Action::Read(at), i64::MIN, i64::MAX)
    }

    /// Adds a step; `low` and `high` are the limits of the result's type.
    pub fn combine(&mut self, op: Op, a: Operand, b: Operand, (low, high): (i64, i64)) -> Option<Operand> {
        if let (Operand::Constant(a), Operand::Constant(b)) = (a, b) {
            let (value, _) = op.bounds((a, a), (b, b))?;
            return (low..=high).contains(&value).then_some(Operand::Constant(value));
        }
        Some(self.step(Action::Combine(op, a, b), low, high))
    }

    fn step(&mut self, action: Action, low: i64, high: i64) -> Operand {
        let step = Step { action, low, high };
        let known = self.steps.iter().position(|other| *other == step);
        Operand::Step(known.unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        }))
    }

    /// Completes the program. Each element of `wanted` is the step of an output.
    pub fn finish(&mut self, wanted: &[usize]) {
        for step in wanted {
            let (base, factor, offset) = self.linear(*step);
            let known = self.bases.iter().position(|other| *other == base);
            let base = known.unwrap_or_else(|| {
                self.bases.push(base);
                self.bases.len() - 1
            });
            self.outputs.push(Output { step: *step, base, factor, offset });
        }
        self.schedule = self.scheduled();
    }

    /// A step as a base, a factor and an offset: its value is the base's value times the factor, plus the offset.
    fn linear(&self, step: usize) -> (usize, i64, i64) {
        let (mut base, mut factor, mut offset) = (step, 1i64, 0i64);
        loop {
            let (next, times, plus) = match self.steps[base].action {
                Action::Combine(Op::Add, Operand::Step(next), Operand::Constant(c)) => (next, 1, c),
                Action::Combine(Op::Add, Operand::Constant(c), Operand::Step(next)) => (next, 1, c),
                Action::Combine(Op::Sub, Operand::Constant(c), Operand::Step(next)) => (next, -1, c),
                Action::Combine(Op::Mul, Operand::Step(next), Operand::Constant(c)) => (next, c, 0),
                Action::Combine(Op::Mul, Operand::Constant(c), Operand::Step(next)) => (next, c, 0),
                Action::Combine(Op::Sub, Operand::Step(next), Operand::Constant(c)) if c > i64::MIN => (next, 1, -c),
                _ => return (base, factor, offset),
            };
            let further = factor.checked_mul(times).zip(factor.checked_mul(plus).and_then(|p| p.checked_add(offset)));
            let Some(further) = further else { return (base, factor, offset) };
            (base, (factor, offset)) = (next, further);
        }
    }

    fn scheduled(&self) -> Schedule {
        let mut needed = vec![false; self.steps.len()];
        let mut last_use: Vec<usize> = (0..self.steps.len()).collect();
        self.bases.iter().for_each(|base| needed[*base] = true);
        // Steps read only earlier steps, so all readers of a step are visited before the step itself.
        for step in (0..self.steps.len()).rev() {
            if needed[step] {
                for read in self.steps[step].action.reads() {
                    needed[read] = true;
                    last_use[read] = last_use[read].max(step);
                }
            }
        }
        let mut schedule = Schedule { register_of: vec![0; self.steps.len()], ..Schedule::default() };
        let mut free = Vec::new();
        for step in (0..self.steps.len()).filter(|step| needed[*step]) {
            // A step's register is chosen before the registers that the step reads become free, so that it differs from
            // them.
            let register = free.pop().unwrap_or_else(|| {
                schedule.registers += 1;
                schedule.registers - 1
            });
            schedule.steps.push((step, register));
            schedule.register_of[step] = register;
            let done = schedule.steps.iter().filter(|(other, _)| last_use[*other] == step);
            free.extend(done.map(|(_, register)| *register));
        }
        schedule
    }

    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The number of steps that are computed for the outputs.
    pub fn bases(&self) -> usize {
        self.bases.len()
    }

    /// The bounds of an output, if they are known.
    pub fn of_output(&self, output: usize, bounds: &Bounds) -> Option<(i64, i64)> {
        bounds[self.outputs[output].step]
    }

    /// The bounds of a base, if they are known.
    pub fn of_base(&self, base: usize, bounds: &Bounds) -> Option<(i64, i64)> {
        bounds[self.bases[base]]
    }

    /// The view's columns from which a step is computed. The step is null if one of them is null.
    pub fn columns_of(&self, step: usize) -> Vec<usize> {
        let mut read = Vec::new();
        let mut open = vec![step];
        while let Some(step) = open.pop() {
            if let Action::Read(column) = self.steps[step].action {
                read.push(self.columns[column]);
            }
            open.extend(self.steps[step].action.reads());
        }
        read.sort_unstable();
        read.dedup();
        read
    }

    /// The bounds of each step's values in a chunk; `None` if they are not known, or exceed the limits.
    pub fn bounds(&self, columns: &[Option<Integers>]) -> Bounds {
        let mut bounds: Bounds = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let of = |operand: Operand| match operand {
                Operand::Step(step) => bounds[step],
                Operand::Constant(value) => Some((value, value)),
            };
            let found = match step.action {
                Action::Read(column) => columns[column].as_ref().map(|column| match column.low > column.high {
                    // All values are null.
                    true => (0, 0),
                    false => (column.low, column.high),
                }),
                Action::Combine(op, a, b) => of(a).zip(of(b)).and_then(|(a, b)| op.bounds(a, b)),
            };
            bounds.push(found.filter(|(low, high)| *low >= step.low && *high <= step.high));
        }
        bounds
    }

    /// Computes some rows. `given` is called with the values of each base whose bounds are known.
    pub fn run(
        &self,
        columns: &[Option<Integers>],
        bounds: &Bounds,
        rows: Rows<'_>,
        workspace: &mut Workspace,
        mut given: impl FnMut(usize, &[i64]),
    ) {
        workspace.0.resize_with(self.schedule.registers, || vec![0; BLOCK]);
        for (step, register) in self.schedule.steps.iter().filter(|(step, _)| bounds[*step].is_some()) {
            let base = self.bases.iter().position(|base| base == step);
            if let Some(values) = self.in_place(*step, columns, rows) {
                base.into_iter().for_each(|base| given(base, values));
                continue;
            }
            let mut into = std::mem::take(&mut workspace.0[*register]);
            let operand = |operand: Operand| match operand {
                Operand::Step(step) => Values::Each(match self.in_place(step, columns, rows) {
                    Some(values) => values,
                    None => &workspace.0[self.schedule.register_of[step]][..rows.len()],
                }),
                Operand::Constant(value) => Values::Same(value),
            };
            let computed = &mut into[..rows.len()];
            match self.steps[*step].action {
                Action::Read(column) => columns[column].iter().for_each(|column| rows.integers(column, computed)),
                Action::Combine(op, a, b) => op.apply(operand(a), operand(b), computed),
            }
            base.into_iter().for_each(|base| given(base, computed));
            workspace.0[*register] = into;
        }
    }

    /// Whether all outputs are columns that can be read without a copy.
    pub fn is_in_place(&self, columns: &[Option<Integers>], rows: Rows<'_>) -> bool {
        self.schedule.steps.iter().all(|(step, _)| self.in_place(*step, columns, rows).is_some())
    }

    /// The values of a step that only reads a column, if no copy is needed.
    fn in_place<'a>(&self, step: usize, columns: &'a [Option<Integers>], rows: Rows<'_>) -> Option<&'a [i64]> {
        match self.steps[step].action {
            Action::Read(column) => rows.in_place(columns[column].as_ref()?),
            Action::Combine(..) => None,
        }
    }
}

/// Memory for the registers.
#[derive(Default)]
pub struct Workspace(Vec<Vec<i64>>);

impl Workspace {
    pub fn bytes(&self) -> usize {
        self.0.len() * BLOCK * size_of::<i64>()
    }
}

#[derive(Clone, Copy)]
enum Values<'a> {
    Each(&'a [i64]),
    Same(i64),
}

impl Op {
    /// The bounds of the results, if 64 bits are enough.
    fn bounds(self, a: (i64, i64), b: (i64, i64)) -> Option<(i64, i64)> {
        let [a_low, a_high, b_low, b_high] = [a.0, a.1, b.0, b.1].map(i128::from);
        let (low, high) = match self {
            Op::Add => (a_low + b_low, a_high + b_high),
            Op::Sub => (a_low - b_high, a_high - b_low),
            Op::Mul => {
                let products = [a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high];
                products.into_iter().fold((i128::MAX, i128::MIN), |(low, high), p| (low.min(p), high.max(p)))
            }
        };
        Some((low.try_into().ok()?, high.try_into().ok()?))
    }

    fn apply(self, a: Values<'_>, b: Values<'_>, into: &mut [i64]) {
        match self {
            Op::Add => apply(a, b, into, i64::wrapping_add),
            Op::Sub => apply(a, b, into, i64::wrapping_sub),
            Op::Mul => apply(a, b, into, i64::wrapping_mul),
        }
    }
}

/// Applies an operation. Results of rows that are null or not wanted may overflow, because nobody reads them.
fn apply(a: Values<'_>, b: Values<'_>, into: &mut [i64], f: impl Fn(i64, i64) -> i64) {
    match (a, b) {
        (Values::Each(a), Values::Each(b)) => fastest(Both { a, b, into, f }),
        (Values::Each(a), Values::Same(b)) => fastest(One { a, into, f: |a| f(a, b) }),
        (Values::Same(a), Values::Each(b)) => fastest(One { a: b, into, f: |b| f(a, b) }),
        (Values::Same(a), Values::Same(b)) => into.fill(f(a, b)),
    }
}

struct Both<'a, F> {
    a: &'a [i64],
    b: &'a [i64],
    into: &'a mut [i64],
    f: F,
}

impl<F: Fn(i64, i64) -> i64> Loop for Both<'_, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for ((into, a), b) in self.into.iter_mut().zip(self.a).zip(self.b) {
            *into = (self.f)(*a, *b);
        }
    }
}

struct One<'a, F> {
    a: &'a [i64],
    into: &'a mut [i64],
    f: F,
}

impl<F: Fn(i64) -> i64> Loop for One<'_, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for (into, a) in self.into.iter_mut().zip(self.a) {
            *into = (self.f)(*a);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn bounds_of_results_hold_and_end_at_64_bits() {
        let ends = [i64::MIN, i64::MIN + 1, -3, 0, 2, i64::MAX - 1, i64::MAX];
        let pairs = || ends.into_iter().flat_map(|low| ends.into_iter().map(move |high| (low, high)));
        for (a, b) in pairs().flat_map(|a| pairs().map(move |b| (a, b))) {
            if a.0 > a.1 || b.0 > b.1 {
                continue;
            }
            let some = |(low, high): (i64, i64)| [low, high, 0.clamp(low, high)];
            for op in [Op::Add, Op::Sub, Op::Mul] {
                let results = some(a).into_iter().flat_map(|a| {
                    some(b).into_iter().map(move |b| match op {
                        Op::Add => a.checked_add(b),
                        Op::Sub => a.checked_sub(b),
                        Op::Mul => a.checked_mul(b),
                    })
                });
                match op.bounds(a, b) {
                    Some((low, high)) => assert!(results.flatten().all(|r| (low..=high).contains(&r))),
                    None => assert!(results.collect::<Vec<_>>().contains(&None), "{op:?} {a:?} {b:?}"),
                }
            }
        }
    }

    const ANY: (i64, i64) = (i64::MIN, i64::MAX);

    fn step(operand: Option<Operand>) -> usize {
        match operand {
            Some(Operand::Step(step)) => step,
            other => panic!("{other:?} is no step"),
        }
    }

    #[test]
    fn of_multiples_and_constants_the_same_step_is_computed() {
        let mut program = Program::default();
        let mut outputs = Vec::new();
        for constant in 0..90 {
            let x = program.read(7);
            outputs.push(step(program.combine(Op::Add, x, Operand::Constant(constant), ANY)));
        }
        // 10 - (3 * x - 4)
        let x = program.read(7);
        let thrice = program.combine(Op::Mul, Operand::Constant(3), x, ANY).unwrap();
        let less = program.combine(Op::Sub, thrice, Operand::Constant(4), ANY).unwrap();
        outputs.push(step(program.combine(Op::Sub, Operand::Constant(10), less, ANY)));
        program.finish(&outputs);
        assert_eq!((program.bases(), program.schedule.steps.len(), program.schedule.registers), (1, 1, 1));
        assert_eq!(program.columns_of(outputs[89]), [7]);
        let found: Vec<_> = program.outputs().iter().map(|output| (output.factor, output.offset)).collect();
        assert_eq!((found[0], found[89], found[90]), ((1, 0), (1, 89), (-3, 14)));
    }

    #[test]
    fn registers_are_used_again() {
        let mut program = Program::default();
        let mut product = program.read(0);
        for column in 1..20 {
            let other = program.read(column);
            product = program.combine(Op::Mul, product, other, ANY).unwrap();
        }
        program.finish(&[step(Some(product))]);
        assert_eq!((program.schedule.steps.len(), program.schedule.registers), (39, 3));
        let columns: Vec<_> = (1..=20).map(|n| Integers::of_array(&array([n, 1 - n, 0]))).collect();
        let bounds = vec![Some(ANY); program.steps.len()];
        let mut given = Vec::new();
        program.run(&columns, &bounds, Rows::From(0, 3), &mut Workspace::default(), |_, v| given.extend_from_slice(v));
        assert_eq!(given, [(1..=20).product::<i64>(), 0, 0]);
    }

    #[test]
    fn a_value_that_may_leave_64_bits_or_its_type_has_no_bounds() {
        let mut program = Program::default();
        let (a, b) = (program.read(0), program.read(1));
        let product = step(program.combine(Op::Mul, a, b, ANY));
        let small = step(program.combine(Op::Add, a, Operand::Constant(1), (i16::MIN.into(), i16::MAX.into())));
        let outputs = [product, small];
        program.finish(&outputs);
        let bounds = |a: i64, b: i64| {
            let columns = [Integers::of_array(&array([a, 0])), Integers::of_array(&array([b, 0]))];
            let bounds = program.bounds(&columns);
            outputs.map(|step| bounds[step])
        };
        assert_eq!(bounds(3, -4), [Some((-12, 0)), Some((1, 4))]);
        assert_eq!(bounds(i16::MAX.into(), 1 << 48), [Some((0, i64::from(i16::MAX) << 48)), None]);
        assert_eq!(bounds(1 << 32, 1 << 31), [None, None]);
        assert_eq!(program.bounds(&[None, None])[product], None);
    }

    fn array<const N: usize>(values: [i64; N]) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    }
}
