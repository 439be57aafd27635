//! Columns side by side: one matrix of f32, rows × the sum of the widths. A column of one row is repeated.
//! Its invariant: columns keep the order of the pipeline, because the model knows them by position.

use super::Output;
use super::hash::unfit;
use millpond_wire_schema::Status;

pub(super) fn run(outputs: &[Output], columns: &[usize], rows: usize) -> Result<Output, Status> {
    let mut parts = Vec::with_capacity(columns.len());
    for column in columns {
        match &outputs[*column] {
            Output::Floats {
                rows: has,
                dim,
                values,
            } if *has == rows || *has == 1 => {
                parts.push((*has == 1 && rows != 1, *dim, values.as_slice()));
            }
            _ => return Err(unfit("one row, or one an item")),
        }
    }
    let width = parts.iter().map(|(_, dim, _)| dim).sum();
    let mut values = Vec::with_capacity(rows * width);
    for row in 0..rows {
        for (repeated, dim, column) in &parts {
            let from = if *repeated { 0 } else { row * dim };
            values.extend_from_slice(&column[from..from + dim]);
        }
    }
    Ok(Output::Floats {
        rows,
        dim: width,
        values,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn one_row_columns_are_repeated() {
        let outputs = [
            Output::Floats {
                rows: 1,
                dim: 2,
                values: vec![1.0, 2.0],
            },
            Output::Floats {
                rows: 3,
                dim: 1,
                values: vec![7.0, 8.0, 9.0],
            },
        ];
        let Output::Floats { rows, dim, values } = run(&outputs, &[0, 1], 3).unwrap() else {
            panic!()
        };
        assert_eq!((rows, dim), (3, 3));
        assert_eq!(values, [1.0, 2.0, 7.0, 1.0, 2.0, 8.0, 1.0, 2.0, 9.0]);
        assert!(run(&outputs, &[1], 2).is_err());
    }
}
