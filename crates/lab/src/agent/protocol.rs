//! What the runner and its agents say to each other, in lines, and what an agent finds in its
//! environment.

use std::time::Duration;

/// How often the runner gives a sign of life.
pub const BEAT: Duration = Duration::from_secs(2);
/// A line on which nothing came for so long is dead.
pub const SILENCE: Duration = Duration::from_secs(20);
/// A pod in which no agent has worked for so long has no runner any more.
pub const ALONE: Duration = Duration::from_secs(60);
/// The word that ends what an agent has started.
pub const END: &str = "end\n";
/// The word by which an agent does something to what it has started; what it is, and which of such
/// words it is, follow.
pub const DO: &str = "do ";
/// What an agent says when it has done that; which of such words it was follows.
pub const DONE: &str = "krarup agent: done ";
/// What an agent says when a program was started; its process number follows.
pub const STARTED: &str = "krarup agent: started ";
/// What an agent says when a program takes connections; its address follows.
pub const ACCEPTS: &str = "krarup agent: accepts ";
/// What an agent says when it looks at the machine.
pub const WATCHES: &str = "krarup agent: watches";
/// What an agent says last: processor time of the program and all its children, in seconds.
pub const SPENT: &str = "krarup agent: spent ";
/// The variable of the environment that all processes of a run carry: `RUN/MACHINE/`.
pub const RUN: &str = "KRARUP_RUN";

/// The variable that names the run's folder.
pub const FOLDER: &str = "KRARUP_FOLDER";

/// The file of the run's folder in which control groups are noted.
pub const GROUPS: &str = "groups";
