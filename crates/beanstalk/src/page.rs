//! The reference page, made from the table of verbs.

use crate::argument::ArgumentCount;
use crate::table::Verb;

impl Verb {
    /// Its word and arguments, as a manual writes them: `release ID PRIORITY DELAY`.
    pub fn usage(self) -> String {
        let argument = |(name, shape): &(&str, ArgumentCount)| match shape {
            ArgumentCount::One => format!(" {}", name.to_uppercase()),
            ArgumentCount::Optional => format!(" [{}]", name.to_uppercase()),
            ArgumentCount::Several => format!(" {0} {0} …", name.to_uppercase()),
        };
        self.name().to_owned() + &self.arguments().iter().map(argument).collect::<String>()
    }

    fn row(self) -> String {
        let replies: Vec<String> = self.replies().iter().map(|word| format!("`{}`", word.name())).collect();
        let body = if self.has_body() { " Each body follows in a line of its own." } else { "" };
        let waits = if self.waits() { "yes" } else { "" };
        format!("| `{}` | {}{body} | {} | {waits} |\n", self.usage(), self.help().trim(), replies.join(", "))
    }
}

/// The reference page.
pub fn page() -> String {
    let mut page = String::from(
        "# Verbs of the broker\n\n<!-- Generated: UPDATE=1 cargo test -p krarup-beanstalk --test all page:: -->\n\n\
         A request is one line, its words parted by blanks, with `\\r\\n` behind it. Times are whole seconds. What may be answered to any \
         request is left out: `BAD_FORMAT`, `UNKNOWN_COMMAND`, `OUT_OF_MEMORY`, `INTERNAL_ERROR`, `NOT_LOGGED_IN` where the broker wants a \
         secret and, to what brings a body, `EXPECTED_CRLF` and `JOB_TOO_BIG`. What they do in detail says [the guide](../guide/broker.md).\n",
    );
    for (title, extra) in [("beanstalkd's verbs", false), ("Verbs that beanstalkd does not know", true)] {
        page += &format!(
            "\n## {title}\n\n| request | what it asks | answers | waits for a message |\n|---|---|---|---|\n"
        );
        Verb::ALL.iter().filter(|verb| verb.is_extra() == extra).for_each(|verb| page += &verb.row());
    }
    page
}
