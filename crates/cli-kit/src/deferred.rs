//! Declares arguments only when they are needed.
//!
//! Building the tables of all verbs takes longer than parsing those of one, and `run` must cost
//! next to nothing. clap builds a deferred subcommand when it is chosen on the command line, and
//! all of them for the manual pages and the completions.

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The arguments `T` of a verb.
pub struct Deferred<T>(pub T);

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(declare::<T>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The description of the verb was set before, and stays.
fn declare<T: Args>(command: Command) -> Command {
    let short = Resettable::from(command.get_about().cloned());
    let long = Resettable::from(command.get_long_about().cloned());
    T::augment_args(command).about(short).long_about(long)
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
