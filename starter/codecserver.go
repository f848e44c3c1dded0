package starter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/stint-run/stint/internal/base/loopback"
	"github.com/stint-run/stint/internal/base/trap"
	"go.temporal.io/sdk/converter"
)

type codecServer struct {
	keys    codecKeys
	ip      string
	port    int
	origins []string
}

func newCodecServer(p *Program) *cobra.Command {
	o := &codecServer{}
	cmd := &cobra.Command{
		Use:   "codec-server --codec-key-file FILE",
		Short: "Decrypt payloads for the web UI",
		Long: `Serves Temporal's codec protocol (POST /encode and /decode) with the keys of --codec-key-file, so that
the web UI and the temporal program show what jobs have encrypted. Enter its address as the codec
endpoint in the web UI's settings. It answers pages of the origins that --origin names, and no others.
It has no authentication: whoever reaches the port can decrypt what they have of histories.`,
		Example: `  stint codec-server --codec-key-file keys.txt --origin http://localhost:8233`,
		Args:    wrongArgs(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd, p) },
	}
	fs := cmd.Flags()
	o.keys.addFlags(fs)
	fs.StringVar(&o.ip, "ip", "127.0.0.1", "address to bind")
	fs.IntVar(&o.port, "port", defaultCodecPort, "port to listen on (0: a free one)")
	fs.StringArrayVar(&o.origins, "origin", []string{"http://localhost:8233", "http://127.0.0.1:8233"}, "`ORIGIN` of a web UI, SCHEME://HOST:PORT; repeatable")
	return cmd
}

const (
	defaultCodecPort = 8234
	// maxCodecBody bounds a request, in bytes: Temporal's histories are smaller.
	maxCodecBody = 64 << 20
	// codecLimit is how long a request, or the end of the server, may take.
	codecLimit = 30 * time.Second
)

func (o *codecServer) run(cmd *cobra.Command, p *Program) error {
	if err := checkPort(cmd.Flags(), "port", o.port); err != nil {
		return err
	}
	codec, err := o.keys.read(p)
	if err != nil {
		return err
	}
	if codec == nil {
		return usageError("no keys given: use --codec-key-file FILE, or %s", codecKeyVariable)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(o.ip, strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("listening for the web UI: %w", err)
	}
	server := &http.Server{Handler: o.guard(l.Addr().String(), converter.NewPayloadCodecHTTPHandler(codec)), ReadTimeout: codecLimit, WriteTimeout: codecLimit}
	served := trap.Go("serving the codec", func() error { return server.Serve(l) })
	fmt.Fprintf(p.Stderr, "codec endpoint: http://%s\n", l.Addr())
	select {
	case err := <-served:
		return fmt.Errorf("serving the codec: %w", err)
	case <-p.Signals:
	case <-cmd.Context().Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), codecLimit)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// guard lets pages of the given origins, and programs, which send no origin, reach the codec. On loopback a
// request must name this machine: a web page may point a name of its own here.
func (o *codecServer) guard(address string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if loopback.Is(address) && !loopback.Is(r.Host) {
			http.Error(w, "invalid host "+r.Host+": use localhost", http.StatusForbidden)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" {
			if !slices.Contains(o.origins, origin) {
				http.Error(w, "invalid origin "+origin+": name it with --origin", http.StatusForbidden)
				return
			}
			header := w.Header()
			header.Set("Access-Control-Allow-Origin", origin)
			header.Set("Access-Control-Allow-Methods", "POST, OPTIONS")
			header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Namespace")
			header.Set("Vary", "Origin")
		}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxCodecBody)
		next.ServeHTTP(w, r)
	})
}
