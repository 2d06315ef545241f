module session

go 1.22

require github.com/beanstalkd/go-beanstalk v0.2.0
