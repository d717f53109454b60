package load

// The parent and each pod talk in lines of JSON: instructions on the pod's
// standard input, news on its standard output. Counts are always of everything
// so far, so that a line may be left out in favour of a later one. The input
// ends only if the parent dies, and a pod does not outlive it.

// instruction is one line to a pod. The first has a Load, then comes one with
// Begin, and the last says Finish.
type instruction struct {
	Load     *Load `json:"load,omitempty"`     // start the engine, and say when it is ready
	Begin    int64 `json:"begin,omitempty"`    // put the load on it from this instant on, in nanoseconds since 1970
	Returned int64 `json:"returned,omitempty"` // runs that this pod triggered and others saw end
	Halt     bool  `json:"halt,omitempty"`     // trigger nothing more
	Finish   bool  `json:"finish,omitempty"`   // send the account, and stop the engine
}

// news is one line from a pod; one of the fields is set.
type news struct {
	Ready   bool     `json:"ready,omitempty"`
	Tally   *tally   `json:"tally,omitempty"`
	Account *account `json:"account,omitempty"` // the last line
	Error   string   `json:"error,omitempty"`
}

// tally is how far a pod has come.
type tally struct {
	Triggered int64   `json:"triggered"`      // and acknowledged
	Refused   int64   `json:"refused"`        // or answered with another error
	Refusal   string  `json:"refusal"`        // the first of these
	Steps     int64   `json:"steps"`          // executed to their end
	Elements  int64   `json:"elements"`       // of these, elements of maps
	Retried   int64   `json:"retried"`        // attempts that failed because they were asked to
	Failed    int64   `json:"failed"`         // runs seen to end as failed, which were asked to
	Errored   int64   `json:"errored"`        // attempts that failed unasked
	Lost      int64   `json:"lost"`           // attempts
	Ends      []int64 `json:"ends"`           // runs seen to end, by the pod that triggered them
	LastEnd   int64   `json:"last_end"`       // when the last of them was seen, in nanoseconds since 1970
	Idle      bool    `json:"idle,omitempty"` // it triggers nothing more
}

// ended is how many runs the pod has seen to end.
func (t tally) ended() int64 {
	var all int64
	for _, n := range t.Ends {
		all += n
	}
	return all
}

// account is what a pod has done and used once the load is over.
type account struct {
	Tally        tally      `json:"tally"`
	Acknowledged *Histogram `json:"acknowledged"`
	Started      *Histogram `json:"started"`
	Ended        *Histogram `json:"ended"`
	Triggers     Batches    `json:"triggers"` // transactions that stored triggers
	Claims       Batches    `json:"claims"`   // … that claimed tasks
	Records      Batches    `json:"records"`  // … that recorded what became of them
	Wakes        int64      `json:"wakes"`    // heard
	Activations  int64      `json:"activations"`
	Looks        int64      `json:"looks"` // transactions that are ours, not the engine's
	CPU          int64      `json:"cpu"`   // nanoseconds
	Memory       memory     `json:"memory"`
}
