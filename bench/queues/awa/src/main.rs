//! awa for bench/queues.py; roles and lines are those of main.go.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use awa::{
    Client, InsertOpts, JobArgs, JobResult, QueueConfig, insert, insert_many_copy_from_pool, insert_with,
    migrations,
};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

const LEASE: Duration = Duration::from_secs(10);
const QUEUE: &str = "jobs";

#[derive(Debug, Serialize, Deserialize)]
struct Job {
    id: u64,
    padding: String,
}

impl JobArgs for Job {
    fn kind() -> &'static str {
        "job"
    }
}

fn job(id: u64) -> Job {
    Job { id, padding: "x".repeat(180) }
}

fn options() -> InsertOpts {
    InsertOpts { queue: QUEUE.into(), ..Default::default() }
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_nanos()
}

fn event(kind: &str, id: u64, at: u128) {
    // One write for each, so that nothing is lost with the process.
    std::io::stdout().write_all(format!("{kind} {id} {at}\n").as_bytes()).expect("stdout is open");
}

async fn put(pool: &PgPool, first: u64, rate: f64, seconds: f64) {
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for n in 0..(rate * seconds) as u64 {
        tokio::time::sleep_until((begun + Duration::from_secs_f64(n as f64 / rate)).into()).await;
        let (pool, due) = (pool.clone(), now());
        tasks.push(tokio::spawn(async move {
            let stored = insert_with(&pool, &job(first + n), options()).await;
            if let Err(error) = &stored {
                eprintln!("put: {error}");
            }
            event(if stored.is_ok() { "e" } else { "x" }, first + n, due);
        }));
    }
    for task in tasks {
        task.await.expect("it does not panic");
    }
}

/// Claims and completions are batched by awa itself. What bounds its recovery is set to the lease that all sides have.
async fn work(pool: PgPool, workers: u32, takes: Duration) -> Result<(), Box<dyn Error>> {
    let config = QueueConfig {
        max_workers: workers,
        poll_interval: Duration::from_millis(50),
        deadline_duration: LEASE,
        ..Default::default()
    };
    let client = Client::builder(pool)
        .queue(QUEUE, config)
        .heartbeat_interval(LEASE / 4)
        .heartbeat_staleness(LEASE)
        .heartbeat_rescue_interval(Duration::from_secs(1))
        .deadline_rescue_interval(Duration::from_secs(1))
        .leader_election_interval(Duration::from_secs(1))
        .register::<Job, _, _>(move |job, _| async move {
            event("s", job.id, now());
            if !takes.is_zero() {
                tokio::time::sleep(takes).await;
            }
            event("d", job.id, now());
            Ok(JobResult::Completed)
        })
        .build()?;
    client.start().await?;
    std::io::stdout().write_all(b"r\n")?;
    std::future::pending().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> f64 { words[at].parse().expect("a number") };
    let pool = PgPoolOptions::new().max_connections(80).connect(&words[1]).await?;
    match words[0].as_str() {
        "setup" => migrations::run(&pool).await?,
        "fill" => {
            let (first, count) = (number(2) as u64, number(3) as u64);
            let ids: Vec<u64> = (first..first + count).collect();
            for some in ids.chunks(1000) {
                let many =
                    some.iter()
                        .map(|&id| insert::params_with(&job(id), options()))
                        .collect::<Result<Vec<_>, _>>()?;
                insert_many_copy_from_pool(&pool, &many).await?;
            }
        }
        "put" => put(&pool, number(2) as u64, number(3), number(4)).await,
        "work" => work(pool, number(2) as u32, Duration::from_secs_f64(number(3) / 1e3)).await?,
        role => return Err(format!("there is no role {role}").into()),
    }
    Ok(())
}
