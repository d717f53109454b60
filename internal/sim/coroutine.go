package sim

import "iter"

// coroutine is a function that runs on the world's goroutine and can wait in
// the middle. It ends by returning; when its pod is gone it is unwound at the
// place where it waits.
type coroutine struct {
	resume func() bool // runs it until it waits or ends; false: it has ended
	unwind func()
	yield  func(struct{}) bool
	ended  bool
}

// unwound is the panic that unwinds a coroutine.
type unwound struct{}

// begin makes a coroutine. It does not run before its first resume.
func begin(body func(c *coroutine)) *coroutine {
	c := &coroutine{}
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(unwound); !ok {
					panic(r)
				}
			}
		}()
		body(c)
	})
	c.resume = func() bool {
		if c.ended {
			return false
		}
		_, more := next()
		c.ended = !more
		return more
	}
	c.unwind = func() {
		c.ended = true
		stop()
	}
	return c
}

// wait returns at the next resume.
func (c *coroutine) wait() {
	if !c.yield(struct{}{}) {
		panic(unwound{})
	}
}
