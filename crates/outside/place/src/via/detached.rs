//! Launchers that return before the program has started, unless an option makes them wait.

/// A launcher, and what makes it wait.
struct Detaching {
    /// Its file name.
    program: &'static str,
    /// The option that an error names.
    remedy: &'static str,
    /// All long options that make it wait.
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
        long: &["--wait", "--scope", "--pty", "--pipe", "--service-type=oneshot"],
        letters: &['t', 'P'],
    },
];
/// Commands that run another one, whose name follows among their options.
const WRAPPERS: [&str; 5] = ["doas", "env", "nice", "sudo", "timeout"];

/// The option that makes this launcher wait, if it needs one and has none. `words` are its command
/// line up to the program. A letter counts anywhere in a word of short options, even in the value of
/// another one: what cannot be told apart is accepted.
pub(super) fn missing_option<'a>(
    words: impl IntoIterator<Item = &'a str>,
) -> Option<(&'static str, &'static str)> {
    let mut words = words.into_iter();
    let name = |word: &'a str| word.rsplit('/').next().unwrap_or(word);
    let find = |word: &'a str| DETACHING.iter().find(|known| known.program == name(word));
    let first = words.next()?;
    let known = match find(first) {
        None if WRAPPERS.contains(&name(first)) => words.find_map(find)?,
        known => known?,
    };
    let waits = words.take_while(|word| *word != "--").any(|word| match word.strip_prefix('-') {
        // Long options may be abbreviated; too short ones are ambiguous.
        Some(rest) if rest.starts_with('-') => {
            known.long.iter().any(|option| option.starts_with(word) && word.len() > 3)
        }
        Some(letters) => letters.contains(known.letters),
        None => word == "Type=oneshot",
    });
    (!waits).then_some((known.program, known.remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_that_does_not_wait_is_named_with_its_option() {
        let missing = |line: &'static str| missing_option(line.split(' '));
        assert_eq!(missing("sbatch -N2 --wrap"), Some(("sbatch", "-W")));
        assert_eq!(missing("systemd-run --uid=x"), Some(("systemd-run", "--wait")));
        for returns in
            ["/usr/bin/sbatch --wait-all-nodes=1", "sudo -u x sbatch -N2", "sbatch -N2 -- x -W"]
        {
            assert_eq!(missing(returns), Some(("sbatch", "-W")), "{returns}");
        }
        for waits in [
            "sudo systemd-run --wai",
            "systemd-run -p Type=oneshot",
            "systemd-run --service-type=oneshot",
            "srun --job-name sbatch",
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
