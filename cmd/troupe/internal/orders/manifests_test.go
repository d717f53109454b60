package orders_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/troupe-dev/troupe"
	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/environment"
	"github.com/troupe-dev/troupe/cmd/troupe/internal/orders"
)

// manifest is the part of Kubernetes' objects that the tests look at.
type manifest struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Replicas int `yaml:"replicas"`
		Strategy struct {
			RollingUpdate struct {
				MaxUnavailable *int `yaml:"maxUnavailable"`
				MaxSurge       int  `yaml:"maxSurge"`
			} `yaml:"rollingUpdate"`
		} `yaml:"strategy"`
		MaxUnavailable int `yaml:"maxUnavailable"`
		Selector       struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"selector"`
		Template template `yaml:"template"`
	} `yaml:"spec"`
}

type template struct {
	Metadata struct {
		Labels map[string]string `yaml:"labels"`
	} `yaml:"metadata"`
	Spec struct {
		Grace           int   `yaml:"terminationGracePeriodSeconds"`
		ServiceLinks    *bool `yaml:"enableServiceLinks"`
		SecurityContext struct {
			RunAsNonRoot bool `yaml:"runAsNonRoot"`
		} `yaml:"securityContext"`
		Containers []container `yaml:"containers"`
	} `yaml:"spec"`
}

type container struct {
	Image string     `yaml:"image"`
	Args  []string   `yaml:"args"`
	Env   []variable `yaml:"env"`
	Ports []struct {
		Name          string `yaml:"name"`
		ContainerPort int    `yaml:"containerPort"`
	} `yaml:"ports"`
	Lifecycle struct {
		PreStop struct {
			Sleep struct {
				Seconds int `yaml:"seconds"`
			} `yaml:"sleep"`
		} `yaml:"preStop"`
	} `yaml:"lifecycle"`
	StartupProbe   probe `yaml:"startupProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	Resources      struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	} `yaml:"resources"`
}

type variable struct {
	Name      string `yaml:"name"`
	Value     string `yaml:"value"`
	ValueFrom struct {
		SecretKeyRef struct {
			Name string `yaml:"name"`
			Key  string `yaml:"key"`
		} `yaml:"secretKeyRef"`
	} `yaml:"valueFrom"`
}

type probe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
	PeriodSeconds    int `yaml:"periodSeconds"`
	TimeoutSeconds   int `yaml:"timeoutSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

// manifests reads every object of deploy/kubernetes, by kind.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	paths, err := filepath.Glob("../../../../deploy/kubernetes/*.yaml")
	require.NoError(t, err)
	byKind := map[string]manifest{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var m manifest
			err := documents.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, path)
			require.NotContains(t, byKind, m.Kind, path)
			byKind[m.Kind] = m
		}
	}
	return byKind
}

// read returns what the environment of a container means.
func read(t *testing.T, c container, secret map[string]string) environment.Values {
	t.Helper()
	var environ []string
	for _, v := range c.Env {
		value := v.Value
		switch {
		case v.ValueFrom.SecretKeyRef.Key != "":
			require.Contains(t, secret, v.ValueFrom.SecretKeyRef.Key)
			value = secret[v.ValueFrom.SecretKeyRef.Key]
		case value == "":
			value = "from-a-field"
		}
		environ = append(environ, v.Name+"="+value)
	}
	values, err := environment.Read(environ)
	require.NoError(t, err, "every TROUPE_ variable is one that the command reads")
	require.NotEmpty(t, values.DatabaseURL)
	require.NoError(t, values.Config.Validate())
	return values
}

// fallback returns the default of a setting that is a whole number.
func fallback(t *testing.T, given int, field string) int {
	t.Helper()
	if given != 0 {
		return given
	}
	settings := troupe.Settings()
	i := slices.IndexFunc(settings, func(s troupe.Setting) bool { return s.Field == field })
	n, err := strconv.Atoi(settings[i].Default)
	require.NoError(t, err)
	return n
}

// bytesOf reads a quantity such as 512Mi or 460MiB.
func bytesOf(t *testing.T, quantity string) int64 {
	t.Helper()
	for suffix, unit := range map[string]int64{"MiB": 1 << 20, "Mi": 1 << 20, "Gi": 1 << 30, "GiB": 1 << 30} {
		if digits, ok := strings.CutSuffix(quantity, suffix); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				return n * unit
			}
		}
	}
	t.Fatalf("%q is no quantity of memory", quantity)
	return 0
}

// Kubernetes waits until the pod has stopped by itself: for preStop, the grace of
// running tasks, and the rest of the stop.
func TestTheGracePeriodCoversTheDrain(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	pod := all["Deployment"].Spec.Template.Spec
	c := pod.Containers[0]
	config := read(t, c, all["Secret"].StringData).Config
	preStop := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	require.Equal(t, 5*time.Second, preStop)
	require.Equal(t, 120, pod.Grace)
	require.Positive(t, config.StopGrace, "it is said, since 30 s by default may be too short")
	stop := actors.Config{StopGrace: config.StopGrace}.StopMax()
	require.Greater(t, stop, config.StopGrace)
	require.GreaterOrEqual(t, time.Duration(pod.Grace)*time.Second, preStop+stop)
}

// Kubernetes tells pods of services by variables that begin with the services'
// names, and so with TROUPE_: the command refuses those that it does not know.
func TestServicesAreNotTakenForSettings(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "Job"} {
		links := manifests(t)[kind].Spec.Template.Spec.ServiceLinks
		require.NotNil(t, links, kind)
		require.False(t, *links, kind)
	}
}

// A deploy replaces one pod at a time, and a drained node takes one at a time.
func TestNoDeployTakesAwayCapacity(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	d := all["Deployment"].Spec
	require.Equal(t, 3, d.Replicas)
	require.NotNil(t, d.Strategy.RollingUpdate.MaxUnavailable)
	require.Zero(t, *d.Strategy.RollingUpdate.MaxUnavailable)
	require.Equal(t, 1, d.Strategy.RollingUpdate.MaxSurge)
	require.Equal(t, 1, all["PodDisruptionBudget"].Spec.MaxUnavailable)
	for _, kind := range []string{"Deployment", "PodDisruptionBudget"} {
		require.Equal(t, d.Template.Metadata.Labels, all[kind].Spec.Selector.MatchLabels, kind)
	}
	require.True(t, d.Template.Spec.SecurityContext.RunAsNonRoot)
	require.True(t, all["Job"].Spec.Template.Spec.SecurityContext.RunAsNonRoot)
}

// All pods of a deploy and the migration fit into PostgreSQL's default number
// of connections.
func TestPodsFitIntoTheConnections(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	d := all["Deployment"].Spec
	config := read(t, d.Template.Spec.Containers[0], all["Secret"].StringData).Config
	const (
		serverMax    = 100 - 3 // max_connections less superuser_reserved_connections
		migration    = 2
		leaveToOther = 20
	)
	pods := d.Replicas + d.Strategy.RollingUpdate.MaxSurge
	need := pods*(config.Connections()+orders.PoolMax) + migration
	require.LessOrEqual(t, need, serverMax-leaveToOther)
}

// The collector of garbage works harder before the kernel ends the process, and
// what slots may hold at most fits.
func TestMemoryFits(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	c := all["Deployment"].Spec.Template.Spec.Containers[0]
	config := read(t, c, all["Secret"].StringData).Config
	limit := bytesOf(t, c.Resources.Limits["memory"])
	require.Equal(t, c.Resources.Limits["memory"], c.Resources.Requests["memory"], "memory is not to be had later")
	i := slices.IndexFunc(c.Env, func(v variable) bool { return v.Name == "GOMEMLIMIT" })
	require.GreaterOrEqual(t, i, 0)
	soft := bytesOf(t, c.Env[i].Value)
	require.LessOrEqual(t, soft, limit*9/10)
	require.GreaterOrEqual(t, soft, limit*8/10)
	const idle = 96 << 20 // what the soak shows of a pod at work
	payloads := int64(fallback(t, config.Slots, "Slots") * fallback(t, config.PayloadLimit, "PayloadLimit"))
	require.Less(t, idle+2*payloads, soft, "an input and an output of the greatest size in each slot")
}

// Containers of the image are called with arguments that the command takes, and
// all use the same image and the Secret that the example shows.
func TestContainersAreCalledAsTheCommandWants(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	d, job := all["Deployment"].Spec.Template.Spec.Containers[0], all["Job"].Spec.Template.Spec.Containers[0]
	require.Equal(t, d.Image, job.Image)
	require.Equal(t, []string{"migrate", "up"}, job.Args)
	require.Equal(t, "orders", d.Args[0])
	require.Equal(t, ":"+strconv.Itoa(d.Ports[0].ContainerPort), d.Args[slices.Index(d.Args, "--listen")+1])
	read(t, job, all["Secret"].StringData)
	for _, c := range []container{d, job} {
		i := slices.IndexFunc(c.Env, func(v variable) bool { return v.Name == environment.DatabaseURL })
		require.Equal(t, all["Secret"].Metadata.Name, c.Env[i].ValueFrom.SecretKeyRef.Name)
	}
	dockerfile, err := os.ReadFile("../../../../Dockerfile")
	require.NoError(t, err)
	require.Contains(t, string(dockerfile), "USER 65532:65532")
	require.Contains(t, string(dockerfile), `ENTRYPOINT ["/troupe"]`)
	require.Contains(t, string(dockerfile), "EXPOSE "+strconv.Itoa(d.Ports[0].ContainerPort))
	require.NotContains(t, string(dockerfile), "ADD http")
}
