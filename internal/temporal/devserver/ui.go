//go:build !noserver

package devserver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/cors"
	"github.com/temporalio/ui-server/v2/server/csrf"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	uiassets "github.com/temporalio/ui-server/v2/ui"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/stint-run/stint/internal/base/loopback"
	"github.com/stint-run/stint/internal/base/trap"
)

// ui is the web UI. It is put together from the parts of Temporal's ui-server in the order in which server.NewServer
// there does it, because that one insists on binding the port itself, ends the process when it cannot, and never closes
// its connection to the frontend.
type ui struct {
	url    string
	server *http.Server
	conn   *grpc.ClientConn
	done   chan struct{}
}

// serveUI serves the web UI on the listener until stop is called.
func serveUI(l net.Listener, address string, o Options) (*ui, error) {
	logger := o.Logger
	settings, err := config.NewConfigProviderWithRefresh(&config.Config{
		TemporalGRPCAddress: address,
		DefaultNamespace:    o.Namespace,
		EnableUI:            true,
		HideLogs:            true,
		DisableNewsFetch:    true,
		// The UI is plain HTTP, over which a browser may drop a secure cookie.
		CORS: config.CORS{CookieInsecure: true},
	})
	if err != nil {
		return nil, fmt.Errorf("configuring the web UI: %w", err)
	}
	conn, err := api.CreateGRPCConnection(settings)
	if err != nil {
		return nil, fmt.Errorf("connecting the web UI: %w", err)
	}
	handler, err := uiHandler(settings, conn, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("assembling the web UI: %w", err), conn.Close())
	}
	u := &ui{
		url:  "http://" + reachable(l),
		conn: conn,
		server: &http.Server{
			Handler:           guardLoopback(l, withPage(o, handler)),
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		},
		done: make(chan struct{}),
	}
	served := func(err error) {
		if !errors.Is(err, http.ErrServerClosed) {
			logger.Error("web UI ended", "error", err)
		}
	}
	trap.Watched("serving the web UI", served, func() {
		defer close(u.done)
		served(u.server.Serve(l))
	})
	return u, nil
}

func uiHandler(settings *config.ConfigProviderWithRefresh, conn *grpc.ClientConn, o Options) (http.Handler, error) {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{
		LogErrorFunc: func(_ echo.Context, err error, stack []byte) error {
			o.Logger.Error("web UI panicked", "error", err, "stack", string(stack))
			return err
		},
	}))
	e.Use(middleware.Gzip())
	e.Use(cors.CORSMiddleware(cors.CORSConfig{
		AllowHeaders:     []string{echo.HeaderOrigin, echo.HeaderContentType, echo.HeaderAccept, echo.HeaderXCSRFToken, "Caller-Type"},
		AllowCredentials: true,
		ConfigProvider:   settings,
	}))
	e.Use(middleware.Secure())
	e.Use(csrf.EnsureTokenCookie(false))
	e.Use(middleware.CSRFWithConfig(csrf.MiddlewareConfig(settings, false)))

	for path, filter := range o.Lists {
		list := "/namespaces/" + url.PathEscape(o.Namespace) + "/workflows?query=" + url.QueryEscape(filter)
		e.GET(path, func(c echo.Context) error { return c.Redirect(http.StatusFound, list) })
	}
	route.SetHealthRoute(e)
	group := e.Group("/api/v1")
	group.GET("/settings", api.GetSettings(settings))
	group.GET(api.WorkflowRawHistoryUrl, api.WorkflowRawHistoryHandler(workflowservice.NewWorkflowServiceClient(conn)))
	forward := []api.Middleware{headers.WithForwardHeaders([]string{"Caller-Type"})}
	group.Match([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, "/*", api.TemporalAPIHandler(settings, forward, conn))

	assets, err := uiassets.Assets()
	if err != nil {
		return nil, err
	}
	if assets, err = fs.Sub(assets, "local"); err != nil {
		return nil, err
	}
	if err := route.SetUIRoutes(e, "", assets); err != nil {
		return nil, err
	}
	route.SetRenderRoute(e, "")
	return e, nil
}

// withPage puts the page in front of the web UI.
func withPage(o Options, ui http.Handler) http.Handler {
	if o.Page == nil {
		return ui
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == o.PagePath || strings.HasPrefix(r.URL.Path, o.PagePath+"/") {
			o.Page.ServeHTTP(w, r)
			return
		}
		ui.ServeHTTP(w, r)
	})
}

// stop closes the port and all connections.
func (u *ui) stop() {
	_ = u.server.Close()
	_ = u.conn.Close()
	<-u.done
}

// guardLoopback refuses requests that name another host, or come from a page of another origin, if
// the listener accepts connections from this machine only (see package loopback). A listener on other
// addresses has names that nobody knows here, and is not guarded.
func guardLoopback(l net.Listener, next http.Handler) http.Handler {
	if !loopback.Is(l.Addr().String()) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := loopback.Check(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		hint := ": open the web UI as localhost"
		if origin := (*loopback.OriginError)(nil); errors.As(err, &origin) {
			hint = ": only the web UI's own pages may send requests"
		}
		http.Error(w, err.Error()+hint, http.StatusForbidden)
	})
}
