//! The eight tables (specification, section 1.4); referenced tables come first.
//!
//! Texts are varchar even where the specification has char(n): engines would pad the latter, but
//! answers are compared without trailing blanks. The further indexes are on foreign keys, which the
//! specification allows (1.5.4). Without them PostgreSQL answers Q17 and Q20 with one scan of
//! lineitem per part.

use crate::Table;

/// All of them.
pub const TABLES: &[Table<'static>] = &[
    Table {
        name: "region",
        columns: "r_regionkey integer not null, r_name varchar(25) not null, \
                  r_comment varchar(152) not null",
        key: "r_regionkey",
        indexes: &[],
    },
    Table {
        name: "nation",
        columns: "n_nationkey integer not null, n_name varchar(25) not null, \
                  n_regionkey integer not null, n_comment varchar(152) not null",
        key: "n_nationkey",
        indexes: &[],
    },
    Table {
        name: "supplier",
        columns: "s_suppkey integer not null, s_name varchar(25) not null, \
                  s_address varchar(40) not null, s_nationkey integer not null, \
                  s_phone varchar(15) not null, s_acctbal decimal(15,2) not null, \
                  s_comment varchar(101) not null",
        key: "s_suppkey",
        indexes: &[],
    },
    Table {
        name: "customer",
        columns: "c_custkey integer not null, c_name varchar(25) not null, \
                  c_address varchar(40) not null, c_nationkey integer not null, \
                  c_phone varchar(15) not null, c_acctbal decimal(15,2) not null, \
                  c_mktsegment varchar(10) not null, c_comment varchar(117) not null",
        key: "c_custkey",
        indexes: &[],
    },
    Table {
        name: "part",
        columns: "p_partkey integer not null, p_name varchar(55) not null, \
                  p_mfgr varchar(25) not null, p_brand varchar(10) not null, \
                  p_type varchar(25) not null, p_size integer not null, \
                  p_container varchar(10) not null, p_retailprice decimal(15,2) not null, \
                  p_comment varchar(23) not null",
        key: "p_partkey",
        indexes: &[],
    },
    Table {
        name: "partsupp",
        columns: "ps_partkey integer not null, ps_suppkey integer not null, \
                  ps_availqty integer not null, ps_supplycost decimal(15,2) not null, \
                  ps_comment varchar(199) not null",
        key: "ps_partkey, ps_suppkey",
        indexes: &[],
    },
    Table {
        name: "orders",
        columns: "o_orderkey bigint not null, o_custkey integer not null, \
                  o_orderstatus varchar(1) not null, o_totalprice decimal(15,2) not null, \
                  o_orderdate date not null, o_orderpriority varchar(15) not null, \
                  o_clerk varchar(15) not null, o_shippriority integer not null, \
                  o_comment varchar(79) not null",
        key: "o_orderkey",
        indexes: &["o_custkey"],
    },
    Table {
        name: "lineitem",
        columns: "l_orderkey bigint not null, l_partkey integer not null, \
                  l_suppkey integer not null, l_linenumber integer not null, \
                  l_quantity decimal(15,2) not null, l_extendedprice decimal(15,2) not null, \
                  l_discount decimal(15,2) not null, l_tax decimal(15,2) not null, \
                  l_returnflag varchar(1) not null, l_linestatus varchar(1) not null, \
                  l_shipdate date not null, l_commitdate date not null, \
                  l_receiptdate date not null, l_shipinstruct varchar(25) not null, \
                  l_shipmode varchar(10) not null, l_comment varchar(44) not null",
        key: "l_orderkey, l_linenumber",
        indexes: &["l_partkey, l_suppkey"],
    },
];
