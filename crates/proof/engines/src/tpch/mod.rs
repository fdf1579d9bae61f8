//! TPC-H: tables, data and queries.
//!
//! Source: the TPC-H specification, revision 3. Data, query texts and reference answers come from
//! the crate tpchgen. Results are derived from TPC-H and not comparable to TPC results.

mod parameters;
mod reference;
mod tables;

use std::io::{self, Write};

use tpchgen::csv::{
    CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv,
};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen::q_and_a::queries;

use crate::{Query, Scale};

pub use reference::reference;
pub use tables::TABLES;

/// The name for people.
pub const TITLE: &str = "TPC-H";
/// The number of queries, which are numbered from 1.
pub const QUERIES: u32 = 22;

/// CSV bytes at scale factor 1, measured.
const CSV_BYTES: f64 = 1.09e9;

/// Approximate size of the data as CSV.
pub fn csv_bytes(scale: Scale) -> u64 {
    (scale.factor() * CSV_BYTES) as u64
}

/// The query with its validation parameters.
pub fn query(number: u32, scale: Scale) -> Option<Query> {
    let template = queries::query(i32::try_from(number).ok()?)?;
    Some(Query { number, sql: parameters::fill(number, template, scale) })
}

/// Writes the rows of a table, one line each.
pub fn write(table: &str, scale: Scale, to: &mut dyn Write) -> io::Result<()> {
    let scale = scale.factor();
    /// Writes all rows of one generator.
    macro_rules! rows {
        ($generator:ident, $csv:ident) => {
            $generator::new(scale, 1, 1)
                .iter()
                .try_for_each(|row| writeln!(to, "{}", $csv::new(row)))
        };
    }
    match table {
        "region" => rows!(RegionGenerator, RegionCsv),
        "nation" => rows!(NationGenerator, NationCsv),
        "supplier" => rows!(SupplierGenerator, SupplierCsv),
        "customer" => rows!(CustomerGenerator, CustomerCsv),
        "part" => rows!(PartGenerator, PartCsv),
        "partsupp" => rows!(PartSuppGenerator, PartSuppCsv),
        "orders" => rows!(OrderGenerator, OrderCsv),
        "lineitem" => rows!(LineItemGenerator, LineItemCsv),
        other => Err(io::Error::other(format!("TPC-H has no table {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_as_many_columns_as_its_rows() {
        let scale: Scale = "0.001".parse().unwrap();
        for table in TABLES {
            let mut text = Vec::new();
            write(table.name, scale, &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            let declared = table.columns.matches(" not null").count();
            let first = text.lines().next().unwrap();
            // Quoted texts may contain commas.
            let outside: String = first.split('"').step_by(2).collect();
            let fields = 1 + outside.matches(',').count();
            assert_eq!(fields, declared, "{}: {first}", table.name);
        }
    }
}
