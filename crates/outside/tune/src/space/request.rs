//! `--factor NAME=LEVEL[,LEVEL...]`: the user's own levels.

use std::str::FromStr;

use numapilot_place::{
    AllocatorChoice, Daemons, MemoryMode, MemoryPolicy, NumaBalancing, Thp, ThreadPlacement,
    allocators,
};
use thiserror::Error;

use super::{FactorName, Level};

/// The requested levels of a factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The factor.
    pub factor: FactorName,
    /// Its levels; the one that changes nothing is always added.
    pub levels: Vec<Level>,
}

/// Why a request is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// There is no `=`.
    #[error("'{0}' is not NAME=LEVEL,LEVEL; write for example thp=inherit,never")]
    NoLevels(String),
    /// There is no such factor.
    #[error("'{name}' is not a factor; factors are {known}")]
    Factor {
        /// The text of the user.
        name: String,
        /// The valid names.
        known: String,
    },
    /// There is no such level.
    #[error("'{level}' is not a level of {factor}; its levels are {known}")]
    Level {
        /// The factor.
        factor: &'static str,
        /// The text of the user.
        level: String,
        /// The valid names.
        known: String,
    },
}

impl FromStr for Request {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let Some((name, levels)) = text.split_once('=').filter(|(_, l)| !l.trim().is_empty())
        else {
            return Err(RequestError::NoLevels(text.to_owned()));
        };
        let name = name.trim();
        let factor = FactorName::ALL.into_iter().find(|f| f.name() == name).ok_or_else(|| {
            RequestError::Factor {
                name: name.to_owned(),
                known: FactorName::ALL.map(FactorName::name).join(", "),
            }
        })?;
        let levels = levels
            .split(',')
            .map(|level| parse(factor, level.trim()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { factor, levels })
    }
}

fn parse(factor: FactorName, text: &str) -> Result<Level, RequestError> {
    let choice = match factor {
        FactorName::Allocator => allocator(text).map(Level::Allocator),
        FactorName::Threads => ThreadPlacement::from_name(text).map(Level::Threads),
        FactorName::Memory => memory(text).map(Level::Memory),
        FactorName::Thp => Thp::from_name(text).map(Level::Thp),
        FactorName::NumaBalancing => NumaBalancing::from_name(text).map(Level::NumaBalancing),
        FactorName::Daemons => Daemons::from_name(text).map(Level::Daemons),
    };
    choice.ok_or_else(|| RequestError::Level {
        factor: factor.name(),
        level: text.to_owned(),
        known: known(factor),
    })
}

fn allocator(text: &str) -> Option<AllocatorChoice> {
    if text.is_empty() {
        return None;
    }
    let choice = AllocatorChoice::from(text.to_owned());
    match &choice {
        AllocatorChoice::Named(name) if name != allocators::GLIBC => {
            allocators::known(name).map(|_| choice)
        }
        _ => Some(choice),
    }
}

/// `interleave`, `bind:0-1`.
fn memory(text: &str) -> Option<MemoryPolicy> {
    let (mode, nodes) = text.split_once(':').unwrap_or((text, ""));
    let mode = MemoryMode::from_name(mode)?;
    let nodes = nodes.to_owned();
    (nodes.is_empty() || mode.needs_nodes()).then(|| MemoryPolicy {
        mode,
        nodes,
        ..MemoryPolicy::default()
    })
}

fn known(factor: FactorName) -> String {
    fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> String {
        all.iter().map(|&level| name(level)).collect::<Vec<_>>().join(", ")
    }
    match factor {
        FactorName::Allocator => {
            let known: Vec<&str> = allocators::KNOWN.iter().map(|k| k.name).collect();
            format!("glibc, {}, or the path of a library", known.join(", "))
        }
        FactorName::Threads => names(ThreadPlacement::ALL, ThreadPlacement::name),
        FactorName::Memory => {
            let modes = names(MemoryMode::ALL, MemoryMode::name);
            format!("{modes}; nodes follow a colon (bind:0-1), for lists of nodes use --plan")
        }
        FactorName::Thp => names(Thp::ALL, Thp::name),
        FactorName::NumaBalancing => names(NumaBalancing::ALL, NumaBalancing::name),
        FactorName::Daemons => names(Daemons::ALL, Daemons::name),
    }
}
