package testbed

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Host is the machine.
type Host struct {
	CPU       string `json:"cpu"`
	Cores     int    `json:"cores"`
	MemoryGiB int    `json:"memory_gib"` // 0: not known
	OS        string `json:"os"`
	Go        string `json:"go"`
}

// String implements fmt.Stringer.
func (h Host) String() string {
	memory := ""
	if h.MemoryGiB > 0 {
		memory = fmt.Sprintf(", %d GiB", h.MemoryGiB)
	}
	return fmt.Sprintf("%s, %d cores%s, %s, %s", h.CPU, h.Cores, memory, h.OS, h.Go)
}

func thisHost() Host {
	h := Host{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		h.CPU = name
	}
	if kib, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		h.MemoryGiB = (kib + 1<<19) >> 20
	}
	return h
}

// PeakMemory returns the most memory that this process has had at once, in
// bytes; 0: it is not known.
func PeakMemory() int64 { return ownMemory("VmHWM") }

// Memory returns the memory that this process has now, in bytes; 0: it is not known.
func Memory() int64 { return ownMemory("VmRSS") }

func ownMemory(name string) int64 {
	kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/self/status", name), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// field finds a value in a file of "name : value" lines; "": it is not there.
func field(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // only read from
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Server is the PostgreSQL that was measured on.
type Server struct {
	Version  string   `json:"version"`
	Private  bool     `json:"private"`  // started for the measurement, on the same machine
	Settings []string `json:"settings"` // that matter for the figures
}

// String implements fmt.Stringer.
func (s Server) String() string {
	where := "a server of yours"
	if s.Private {
		where = "private"
	}
	return s.Version + ", " + where + ", " + strings.Join(s.Settings, ", ")
}

// serverSettings are the settings that a figure depends on most.
var serverSettings = []string{"fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers", "max_wal_size"}

func readServer(ctx context.Context, pool *pgxpool.Pool, private bool) (Server, error) {
	s := Server{Private: private}
	if err := pool.QueryRow(ctx, "select split_part(current_setting('server_version'), ' ', 1)").Scan(&s.Version); err != nil {
		return s, err
	}
	for _, name := range serverSettings {
		var value string
		if err := pool.QueryRow(ctx, "select current_setting($1)", name).Scan(&value); err != nil {
			return s, err
		}
		s.Settings = append(s.Settings, name+"="+value)
	}
	return s, nil
}
