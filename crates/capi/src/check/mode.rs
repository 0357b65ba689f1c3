//! What `FARPOST_CHECK` asks for.

/// The variable.
pub(crate) const VARIABLE: &str = "FARPOST_CHECK";

/// What is looked for, and what is done about it. All false: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckMode {
    /// Mistakes are looked for.
    pub(crate) on: bool,
    /// Every finding is told in full, not only the first of each kind.
    pub(crate) all: bool,
    /// A finding ends the job with an exit code that is not zero.
    pub(crate) error: bool,
}

impl CheckMode {
    /// From the variable's value: `0`, `1`, or any of `all` and `error`.
    pub(crate) fn parse(value: &str) -> Result<Self, String> {
        let mut mode = Self::default();
        for word in value.split(',') {
            match word.trim() {
                "" | "0" => continue,
                "1" => {}
                "all" => mode.all = true,
                "error" => mode.error = true,
                _ => {
                    return Err(format!(
                        "{VARIABLE}={value}: allowed are 0, 1, all, error, and all,error"
                    ));
                }
            }
            mode.on = true;
        }
        Ok(mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_says_what_is_looked_for() {
        let mode = |on, all, error| Ok(CheckMode { on, all, error });
        assert_eq!(CheckMode::parse("0"), mode(false, false, false));
        assert_eq!(CheckMode::parse(""), mode(false, false, false));
        assert_eq!(CheckMode::parse("1"), mode(true, false, false));
        assert_eq!(CheckMode::parse("error, all"), mode(true, true, true));
        assert!(CheckMode::parse("yes").is_err());
    }
}
