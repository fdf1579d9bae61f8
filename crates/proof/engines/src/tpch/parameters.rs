//! Makes statements from templates: validation parameters, row limits and changes of syntax.
//!
//! Source: the TPC-H specification, section 2.4, "query validation" and "functional query
//! definition" (row limits) of each query. Section 2.2.4.3 allows the changes of syntax: an
//! interval without a precision (Q1), and a common table expression instead of a view (Q15,
//! appendix B).

use crate::Scale;

/// Values of the parameters `:1`, `:2` and so on.
fn values(number: u32, scale: Scale) -> Vec<String> {
    let fraction = format!("{:.12}", 0.0001 / scale.factor());
    let values: &[&str] = match number {
        1 => &["90"],
        2 => &["15", "BRASS", "EUROPE"],
        3 => &["BUILDING", "1995-03-15"],
        4 => &["1993-07-01"],
        5 => &["ASIA", "1994-01-01"],
        6 => &["1994-01-01", "0.06", "24"],
        7 => &["FRANCE", "GERMANY"],
        8 => &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
        9 => &["green"],
        10 => &["1993-10-01"],
        11 => &["GERMANY", &fraction],
        12 => &["MAIL", "SHIP", "1994-01-01"],
        13 => &["special", "requests"],
        14 => &["1995-09-01"],
        15 => &["1996-01-01"],
        16 => &["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"],
        17 => &["Brand#23", "MED BOX"],
        18 => &["300"],
        19 => &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
        20 => &["forest", "1994-01-01", "CANADA"],
        21 => &["SAUDI ARABIA"],
        22 => &["13", "31", "23", "29", "30", "18", "17"],
        _ => &[],
    };
    values.iter().map(ToString::to_string).collect()
}

/// The most rows that the query returns.
fn limit(number: u32) -> Option<u32> {
    match number {
        2 | 18 | 21 => Some(100),
        3 => Some(10),
        10 => Some(20),
        _ => None,
    }
}

/// The statement made from a template.
pub fn fill(number: u32, template: &str, scale: Scale) -> String {
    let mut sql = template.trim().trim_end_matches(';').to_owned();
    // Begin with the last, because `:1` is also the beginning of `:10`.
    for (at, value) in values(number, scale).iter().enumerate().rev() {
        sql = sql.replace(&format!(":{}", at + 1), value);
    }
    sql = sql.replace("day (3)", "day");
    if number == 15 {
        sql = view_as_expression(&sql);
    }
    match limit(number) {
        Some(rows) => format!("{sql}\nlimit {rows}"),
        None => sql,
    }
}

/// Turns `create view V as A; B; drop view V` into `with V as (A) B`. Read-only sessions can run
/// that, and several sessions at the same time.
fn view_as_expression(sql: &str) -> String {
    let mut statements = sql
        .replace("revenue:s", "revenue")
        .split(';')
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .into_iter();
    let (view, query) =
        (statements.next().unwrap_or_default(), statements.next().unwrap_or_default());
    match view.trim().strip_prefix("create view ").and_then(|view| view.split_once(" as")) {
        Some((head, body)) => format!("with {head} as ({body})\n{}", query.trim()),
        None => sql.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpch::{QUERIES, query};

    #[test]
    fn every_query_is_one_statement_without_parameters() {
        let scale: Scale = "0.01".parse().unwrap();
        for number in 1..=QUERIES {
            let sql = query(number, scale).unwrap().sql;
            assert!(!sql.contains(':') && !sql.contains(';'), "Q{number}: {sql}");
            assert!(sql.starts_with("select") || sql.starts_with("with"), "Q{number}: {sql}");
        }
        assert!(query(11, scale).unwrap().sql.contains("* 0.010000000000\n"));
        assert!(query(16, scale).unwrap().sql.contains("(49, 14, 23, 45, 19, 3, 36, 9)"));
        assert!(query(15, scale).unwrap().sql.starts_with("with revenue (supplier_no"));
        assert!(query(3, scale).unwrap().sql.ends_with("limit 10"));
        assert!(query(0, scale).is_none() && query(23, scale).is_none());
    }
}
