package demo

// The parent and each pod talk in lines of JSON: requests on the pod's standard
// input, one reply each on its standard output. The input ends only if the
// parent dies, and a pod does not outlive it.

// request asks a pod to trigger runs: of the census, one per package, for the
// tenant; or Probes times the probe, one after the other; or to stop in good
// order, which has no reply.
type request struct {
	Tenant   string   `json:"tenant,omitempty"`
	Packages []string `json:"packages,omitempty"`
	Probes   int      `json:"probes,omitempty"`
	Stop     bool     `json:"stop,omitempty"`
}

// reply is the answer, or, unasked, the first line: the pod is ready.
type reply struct {
	Ready bool     `json:"ready,omitempty"`
	Runs  []string `json:"runs,omitempty"` // ids of the census's runs, which are durable now
	Error string   `json:"error,omitempty"`
}
