//! Tests that the validation of plans accepts or refuses window frames of values.

use plan::{
    Agg, Bound, ColumnId, Exclude, Expr, Frame, Over, Plan, Reach, Rel, SortKey, Type, Unit, WindowCall, WindowFunction,
};

use crate::level::relation;

#[test]
fn frames_of_values_have_edges_of_their_type_on_the_sides_that_say_so() {
    let scan = || Box::new(Rel::Scan { relation: 0, columns: vec![ColumnId(0), ColumnId(1)] });
    let checked = |unit, bounds: [Bound; 2], edges: [Option<u16>; 2], function, keys: usize| {
        let [start, end] = edges.map(|at| at.map(|at| Expr::column(ColumnId(at))));
        let reach = (unit == Unit::Values).then(|| Box::new(Reach { value: Expr::column(ColumnId(0)), start, end }));
        let frame = Frame { unit, start: bounds[0], end: bounds[1], exclude: Exclude::Nothing };
        let call = WindowCall { columns: vec![ColumnId(2)], function, frame, reach };
        let order = vec![SortKey::ascending(Expr::column(ColumnId(0))); keys];
        let over = Box::new(Over { partition: vec![], order, ties: vec![] });
        let types = [Type::Int32, Type::Int64];
        let plan = Plan {
            relations: vec![relation(0, &types)],
            columns: [&types[..], &[Type::Int64]].concat(),
            params: vec![],
            root: Rel::Window { input: scan(), over, calls: vec![call] },
            output: vec![],
        };
        plan.check().is_ok()
    };
    let count = || WindowFunction::Aggregate(Agg::CountStar);
    use Bound::{Current, Edge, Preceding, Unbounded};
    assert!(checked(Unit::Values, [Edge, Current], [Some(0), None], count(), 1));
    assert!(checked(Unit::Rows, [Unbounded, Current], [None, None], count(), 0));
    assert!(!checked(Unit::Values, [Edge, Current], [Some(1), None], count(), 1), "of another type");
    assert!(!checked(Unit::Values, [Edge, Current], [None, None], count(), 1), "no edge");
    assert!(!checked(Unit::Values, [Unbounded, Current], [Some(0), None], count(), 1), "an edge too many");
    assert!(!checked(Unit::Values, [Preceding(1), Edge], [None, Some(0)], count(), 1), "it counts nothing");
    assert!(!checked(Unit::Values, [Edge, Edge], [Some(0), Some(0)], count(), 2), "two keys");
    assert!(!checked(Unit::Values, [Edge, Edge], [Some(0), Some(0)], WindowFunction::Rank, 1), "it has no frame");
    assert!(!checked(Unit::Groups, [Edge, Current], [None, None], count(), 1), "groups have no edges");
}
