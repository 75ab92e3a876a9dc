//! Compares two ways of numbering groups, for tests.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, Schema};
use datafusion_expr::EmitTo;
use datafusion_physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion_physical_plan::aggregates::order::GroupOrdering;

use super::table::group_values;

pub struct Both {
    pub ours: Box<dyn GroupValues>,
    expected: Box<dyn GroupValues>,
}

impl Both {
    pub fn of(keys: &[DataType]) -> Both {
        let fields = keys.iter().enumerate().map(|(i, ty)| Field::new(format!("k{i}"), ty.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let expected = new_group_values(schema.clone(), &GroupOrdering::None).unwrap();
        Both { ours: group_values(schema).unwrap(), expected }
    }

    pub fn intern(&mut self, keys: &[ArrayRef]) {
        let (mut groups, mut expected) = (vec![7], Vec::new());
        self.ours.intern(keys, &mut groups).unwrap();
        self.expected.intern(keys, &mut expected).unwrap();
        assert_eq!(groups, expected);
        assert_eq!((self.ours.len(), self.ours.is_empty()), (self.expected.len(), self.expected.is_empty()));
    }

    pub fn emit(&mut self, emit_to: EmitTo) {
        let (keys, expected) = (self.ours.emit(emit_to).unwrap(), self.expected.emit(emit_to).unwrap());
        assert_eq!(keys, expected);
        if matches!(emit_to, EmitTo::All) {
            // One of the two numberings may forget its groups when it emits them, and the other one only here.
            self.ours.clear_shrink(0);
            self.expected.clear_shrink(0);
        }
        assert_eq!(self.ours.len(), self.expected.len());
    }
}
