//! Launchers that return before the program has started, unless an option makes them wait.

/// A launcher, and what makes it wait.
struct Detaching {
    /// Its file name.
    program: &'static str,
    /// The option that an error names.
    remedy: &'static str,
    /// The beginnings of all long options that make it wait.
    long: &'static [&'static str],
    /// The letters of all short options that do.
    letters: &'static [char],
}

/// sbatch(1) and systemd-run(1).
const DETACHING: [Detaching; 2] = [
    Detaching { program: "sbatch", remedy: "-W", long: &["--wait"], letters: &['W'] },
    Detaching {
        program: "systemd-run",
        remedy: "--wait",
        long: &["--wait", "--scope", "--pty", "--pipe"],
        letters: &['t', 'P'],
    },
];

/// The option that makes this launcher wait, if it needs one and has none. `options` are the words
/// behind its name. A letter counts anywhere in a word of short options, even in the value of
/// another one: what cannot be told apart is accepted.
pub(super) fn missing_option<'a>(
    program: &str,
    mut options: impl Iterator<Item = &'a str>,
) -> Option<(&'static str, &'static str)> {
    let known = DETACHING.iter().find(|known| known.program == program)?;
    let waits = options.any(|word| match word.strip_prefix('-') {
        Some(rest) if rest.starts_with('-') => {
            known.long.iter().any(|option| word.starts_with(option))
        }
        Some(letters) => letters.contains(known.letters),
        None => false,
    });
    (!waits).then_some((known.program, known.remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_that_does_not_wait_is_named_with_its_option() {
        let missing = |line: &str| {
            let mut words = line.split(' ');
            missing_option(words.next().unwrap(), words)
        };
        assert_eq!(missing("sbatch -N2 --wrap"), Some(("sbatch", "-W")));
        assert_eq!(missing("systemd-run --uid=x"), Some(("systemd-run", "--wait")));
        for waits in [
            "sbatch -W",
            "sbatch -N2 --wait",
            "sbatch -HW",
            "systemd-run -qt",
            "systemd-run --scope",
            "systemd-run --pipe -G",
            "srun -N2",
        ] {
            assert_eq!(missing(waits), None, "{waits}");
        }
    }
}
