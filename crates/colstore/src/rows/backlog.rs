//! Transactions that wait to be applied, in the order of their commits.

use std::collections::VecDeque;

use snapmem::{OutOfMemory, Pool};

use crate::base::claim::Claim;

const ENTRY_BYTES: u64 = size_of::<PendingTransaction>() as u64 + 16;

/// The changes that a committed transaction has made to one table. They wait to be applied.
#[derive(Debug)]
pub struct PendingTransaction {
    pub xid: u64,
    /// PostgreSQL's commit time. Only the entry for the first table that the transaction touched has it, so that each
    /// transaction is counted once.
    pub counted: Option<i64>,
    /// Messages of the stream, each with its length before it.
    pub messages: Box<[u8]>,
}

#[derive(Debug)]
pub struct Backlog {
    waiting: VecDeque<PendingTransaction>,
    claim: Claim,
}

impl Backlog {
    pub fn new(pool: &Pool) -> Backlog {
        Backlog { waiting: VecDeque::new(), claim: Claim::new(pool) }
    }

    pub fn push(&mut self, transaction: PendingTransaction) -> Result<(), OutOfMemory> {
        self.claim.add(size(&transaction))?;
        self.waiting.push_back(transaction);
        Ok(())
    }

    /// Removes the wanted transactions, and returns them in commit order. It stops when the removed ones amount to
    /// `budget` bytes.
    pub fn take(&mut self, wanted: impl Fn(u64) -> bool, budget: u64) -> Vec<PendingTransaction> {
        let (mut taken, mut kept) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        if !self.waiting.iter().any(|transaction| wanted(transaction.xid)) {
            return taken;
        }
        while bytes < budget
            && let Some(transaction) = self.waiting.pop_front()
        {
            if wanted(transaction.xid) {
                bytes += size(&transaction);
                taken.push(transaction);
            } else {
                kept.push(transaction);
            }
        }
        kept.into_iter().rev().for_each(|transaction| self.waiting.push_front(transaction));
        self.claim.subtract(bytes);
        taken
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

fn size(transaction: &PendingTransaction) -> u64 {
    ENTRY_BYTES + transaction.messages.len() as u64
}
