//! The registers, which hold the results of a program's steps for the rows of a chunk. Their memory is allocated before
//! the fork, because the child must not allocate.

use arrow_buffer::BooleanBuffer;
use colstore::{CHUNK_ROWS, Coded};
use plan::{ArithOp, BoolOp, CmpOp};

use super::program::{Program, Register, Step};
use super::trouble::Trouble;

/// A chunk of the table, as it lies in memory.
pub struct Chunk {
    pub rows: usize,
    /// The rows that exist; `None` if all do.
    pub live: Option<BooleanBuffer>,
    pub columns: Vec<Coded>,
}

/// The state of a row's value in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    Null = 0,
    Value = 1,
    /// The computation may raise an error, so the query has to run on the heap.
    Error = 2,
}

/// The values of a register, and their states.
struct Lane {
    values: Vec<i128>,
    states: Vec<State>,
}

pub struct Registers {
    lanes: Vec<Lane>,
    /// The rows that pass the conditions.
    rows: Vec<u32>,
    valid: Vec<bool>,
    begun: bool,
}

impl Registers {
    pub fn bytes(program: &Program) -> usize {
        (program.steps.len() * (size_of::<i128>() + 1) + size_of::<u32>() + 1) * CHUNK_ROWS
    }

    pub fn new(program: &Program) -> Registers {
        let lane = |_: &Step| Lane { values: vec![0; CHUNK_ROWS], states: vec![State::Null; CHUNK_ROWS] };
        Registers {
            lanes: program.steps.iter().map(lane).collect(),
            rows: Vec::with_capacity(CHUNK_ROWS),
            valid: vec![true; CHUNK_ROWS],
            begun: false,
        }
    }

    #[inline]
    pub fn state(&self, register: Register, row: u32) -> State {
        self.lanes[register].states[row as usize]
    }

    #[inline]
    pub fn value(&self, register: Register, row: u32) -> i128 {
        self.lanes[register].values[row as usize]
    }

    /// Computes a chunk, and returns the number of rows that pass the conditions. [`Registers::row`] returns these
    /// rows.
    pub fn compute(&mut self, program: &Program, chunk: &Chunk) -> Result<usize, Trouble> {
        for (at, step) in program.steps.iter().enumerate() {
            let (before, after) = self.lanes.split_at_mut(at);
            let lane = &mut after[0];
            match step {
                // Constants are the same for all chunks.
                Step::Constant(_) if self.begun => {}
                Step::Constant(value) => {
                    lane.values.fill(value.unwrap_or(0));
                    lane.states.fill(if value.is_some() { State::Value } else { State::Null });
                }
                Step::Column(column) => {
                    let valid = &mut self.valid[..chunk.rows];
                    chunk.columns[*column].read(&mut lane.values[..chunk.rows], valid);
                    let state = |valid: &bool| if *valid { State::Value } else { State::Null };
                    lane.states.iter_mut().zip(valid.iter()).for_each(|(into, valid)| *into = state(valid));
                }
                step => lane.fill(step, before, chunk.rows),
            }
        }
        self.begun = true;
        self.select(program, chunk)
    }

    pub fn row(&self, at: usize) -> u32 {
        self.rows[at]
    }

    /// Selects the rows that exist, and for which all conditions are true.
    fn select(&mut self, program: &Program, chunk: &Chunk) -> Result<usize, Trouble> {
        self.rows.clear();
        for row in 0..chunk.rows {
            let is_there = chunk.live.as_ref().is_none_or(|live| live.value(row));
            if is_there && passes(&self.lanes, &program.conditions, row)? {
                // The vector has room for all rows of a chunk, so this does not allocate.
                self.rows.push(row as u32);
            }
        }
        Ok(self.rows.len())
    }
}

#[inline]
fn passes(lanes: &[Lane], conditions: &[Register], row: usize) -> Result<bool, Trouble> {
    for condition in conditions {
        match lanes[*condition].states[row] {
            State::Value if lanes[*condition].values[row] != 0 => {}
            State::Value | State::Null => return Ok(false),
            State::Error => return Err(Trouble::Raised),
        }
    }
    Ok(true)
}

impl Lane {
    fn fill(&mut self, step: &Step, lanes: &[Lane], rows: usize) {
        match step {
            Step::Column(_) | Step::Constant(_) => {}
            Step::Scaled { of, factor, low, high } => {
                let of = &lanes[*of];
                for row in 0..rows {
                    let scaled = of.values[row].checked_mul(*factor);
                    let fits = scaled.filter(|scaled| (*low..=*high).contains(scaled));
                    self.put(row, of.states[row], fits);
                }
            }
            Step::Arith { op, left, right, low, high } => {
                let compute = match op {
                    ArithOp::Add => i128::checked_add,
                    ArithOp::Sub => i128::checked_sub,
                    _ => i128::checked_mul,
                };
                let (left, right) = (&lanes[*left], &lanes[*right]);
                for row in 0..rows {
                    let result = compute(left.values[row], right.values[row]);
                    let fits = result.filter(|result| (*low..=*high).contains(result));
                    self.put(row, both(left.states[row], right.states[row]), fits);
                }
            }
            Step::Compare { op, left, right } => {
                let (left, right) = (&lanes[*left], &lanes[*right]);
                match op {
                    CmpOp::Eq => self.compare(left, right, rows, |l, r| l == r),
                    CmpOp::Ne => self.compare(left, right, rows, |l, r| l != r),
                    CmpOp::Lt => self.compare(left, right, rows, |l, r| l < r),
                    CmpOp::Le => self.compare(left, right, rows, |l, r| l <= r),
                    CmpOp::Gt => self.compare(left, right, rows, |l, r| l > r),
                    CmpOp::Ge => self.compare(left, right, rows, |l, r| l >= r),
                }
            }
            Step::Bool { op, args } => {
                // An argument with this value decides the result: false for AND, true for OR.
                let decides = *op == BoolOp::Or;
                for row in 0..rows {
                    let (mut state, mut value) = (State::Value, !decides);
                    for arg in args {
                        let arg = &lanes[*arg];
                        match arg.states[row] {
                            State::Error => state = State::Error,
                            State::Null => state = State::Null,
                            State::Value if (arg.values[row] != 0) == decides => {
                                (state, value) = (State::Value, decides);
                            }
                            State::Value => continue,
                        }
                        if state != State::Null {
                            break;
                        }
                    }
                    (self.states[row], self.values[row]) = (state, value.into());
                }
            }
            Step::Not(of) => {
                let of = &lanes[*of];
                for row in 0..rows {
                    (self.states[row], self.values[row]) = (of.states[row], (of.values[row] == 0).into());
                }
            }
            Step::IsNull { of, negated } => {
                let of = &lanes[*of];
                for row in 0..rows {
                    let state = if of.states[row] == State::Error { State::Error } else { State::Value };
                    let is_null = of.states[row] == State::Null;
                    (self.states[row], self.values[row]) = (state, (is_null != *negated).into());
                }
            }
        }
    }

    /// Writes a result. `None` means that the result is out of range, which is an error only if both operands have
    /// values.
    #[inline]
    fn put(&mut self, row: usize, operands: State, result: Option<i128>) {
        self.states[row] = if operands == State::Value && result.is_none() { State::Error } else { operands };
        self.values[row] = result.unwrap_or(0);
    }

    #[inline]
    fn compare(&mut self, left: &Lane, right: &Lane, rows: usize, holds: impl Fn(i128, i128) -> bool) {
        for row in 0..rows {
            self.states[row] = both(left.states[row], right.states[row]);
            self.values[row] = holds(left.values[row], right.values[row]).into();
        }
    }
}

/// The state of a result that is computed from two operands in these states.
#[inline]
fn both(left: State, right: State) -> State {
    match (left, right) {
        (State::Value, State::Value) => State::Value,
        (State::Error, _) | (_, State::Error) => State::Error,
        _ => State::Null,
    }
}
