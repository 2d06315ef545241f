module outbox

go 1.22

require (
	github.com/beanstalkd/go-beanstalk v0.2.0
	github.com/jackc/pgx/v5 v5.7.1
)
