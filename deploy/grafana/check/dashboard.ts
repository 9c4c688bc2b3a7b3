// The type of our dashboards, made of the types of Grafana. The types of Grafana leave open what belongs to a plugin: the options of a panel,
// the settings of its fields and the queries. Here they are those of the plugins that we use.
import type { DataQuery, GraphFieldConfig, TableFieldOptions } from '@grafana/schema';
import type { AnnotationQuery, Dashboard as AnyDashboard, DataSourceRef, FieldConfig, Panel, RowPanel } from './node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen';
import type { Options as BarGaugeOptions } from './node_modules/@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/types.gen';
import type { Options as StatOptions } from './node_modules/@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen';
import type { Options as TableOptions } from './node_modules/@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen';
import type { Options as TimeSeriesOptions } from './node_modules/@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';

// JSON has the values of an enumeration, not its members.
type Values<T> = T extends string ? `${T}` : T extends Array<infer U> ? Array<Values<U>> : T extends object ? { [K in keyof T]: Values<T[K]> } : T;

// With replaces properties of a type by others.
type With<T, U> = { [K in keyof (Omit<T, keyof U> & U)]: (Omit<T, keyof U> & U)[K] };

// PromQuery is a query of the data source Prometheus, whose type is not in the package of types.
type PromQuery = With<DataQuery, {
  expr: string;
  datasource?: DataSourceRef;
  editorMode?: 'code' | 'builder';
  format?: 'time_series' | 'table' | 'heatmap';
  instant?: boolean;
  range?: boolean;
  legendFormat?: string;
}>;

type Field<Custom> = With<Values<FieldConfig>, { unit: string; custom?: Values<Custom> }>;

type PanelOf<Kind, Options, Custom> = With<Values<Panel>, {
  type: Kind;
  id: number;
  title: string;
  description: string;
  datasource: DataSourceRef;
  gridPos: { x: number; y: number; w: number; h: number };
  options: Values<Options>;
  fieldConfig: { defaults: Field<Custom>; overrides: [] };
  targets: PromQuery[];
}>;

type AnyPanel =
  | PanelOf<'timeseries', TimeSeriesOptions, GraphFieldConfig>
  | PanelOf<'stat', StatOptions, never>
  | PanelOf<'bargauge', BarGaugeOptions, never>
  | PanelOf<'table', TableOptions, TableFieldOptions>
  | With<RowPanel, { panels: [] }>;

export type Dashboard = With<Values<AnyDashboard>, {
  uid: string;
  title: string;
  panels: AnyPanel[];
  annotations: { list: Array<With<Values<AnnotationQuery>, { target: PromQuery }>> };
}>;
