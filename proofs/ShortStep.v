(** * When a short step is the last

    The solver's last step: from the shares at [l] it predicts the excess at [l + s] by
    a model that has the right value and slope at [s = 0], and goes to the model's zero
    [delta].  If the curve's slope is bounded by its distance from 0 and 1 and its
    curvature likewise, the excess left behind is quadratic in [delta]
    ([short_step]); after Newton's step it is half of that ([newton_step]).  The
    logistic and the Laplace curve satisfy this with the constant 1
    ([logistic_short_step], [laplace_short_step]). *)

From Coq Require Import Reals Lra Lia Arith.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Selection Exponential Derivative Logistic Laplace.
Open Scope R_scope.

(** ** Setting *)

(** The distance of a share from 0 or 1, whichever is nearer. *)
Definition half (f : R -> R) t := Rmin (f t) (1 - f t).

(** [f1] is the slope of [f], at most [sqrt c] times [half f]; and [f1] changes over an
    interval by at most its length times any bound of [c * half f] on it: it is
    absolutely continuous with a derivative that is bounded by [c * half f]. *)
Record curved c (f f1 : R -> R) : Prop := {
  slope_of    : forall t, is_derive f t (f1 t);
  slope_bound : forall t, 0 <= f1 t <= sqrt c * half f t;
  curvature   : forall s t m, s <= t -> (forall u, s <= u <= t -> c * half f u <= m) ->
                Rabs (f1 t - f1 s) <= m * (t - s) }.

Definition excess f n x k l := ∑_(i < n) f (x i - l) - k.

(** What the shares up to a half hold, and what the others lack to 1. *)
Definition held f n x l :=
  ∑_(i < n) (if Rle_dec (f (x i - l)) (/ 2) then f (x i - l) else 0).
Definition lacking f n x l :=
  ∑_(i < n) (if Rle_dec (f (x i - l)) (/ 2) then 0 else 1 - f (x i - l)).

(** The sum of the slopes, and its ratio to the two sums. *)
Definition slopes (f1 : R -> R) n x l := ∑_(i < n) f1 (x i - l).
Definition ratio f f1 n x l := slopes f1 n x l / (held f n x l + lacking f n x l).

(** The excess that the model predicts at [l + s]. *)
Definition model f f1 n x k l s :=
  held f n x l * exp (- (ratio f f1 n x l * s))
  - lacking f n x l * exp (ratio f f1 n x l * s)
  - (held f n x l - lacking f n x l - excess f n x k l).

(** ** Growth *)

(** A function whose slope is at most [a] times itself grows at most like [exp (a t)]. *)
Lemma growth (g g1 : R -> R) a : (forall t, is_derive g t (g1 t)) ->
  (forall t, 0 <= g t) -> 0 <= a -> (forall t, Rabs (g1 t) <= a * g t) ->
  forall t s, g (t + s) <= g t * exp (a * Rabs s).
Proof.
  intros Hg Hpos Ha Hb t s.
  assert (Hm : forall u v, u <= v ->
    g v <= g u * exp (a * (v - u)) /\ g u <= g v * exp (a * (v - u))).
  { assert (Hd : forall e, e = 1 \/ e = -1 -> forall u v, u <= v ->
      e * (g u * exp (- (e * a * u))) >= e * (g v * exp (- (e * a * v)))).
    { intros e He u v Huv.
      destruct (MVT_gen (fun t => e * (g t * exp (- (e * a * t)))) u v
        (fun t => e * ((g1 t - e * a * g t) * exp (- (e * a * t))))) as [w [_ Hw]].
      - intros w _; specialize (Hg w); evar_last.
        + apply is_derive_scal, (is_derive_mult g (fun t => exp (- (e * a * t))) w (g1 w)
            (- (e * a) * exp (- (e * a * w)))); [exact Hg| |intros; apply Rmult_comm].
          auto_derive; [exact I|ring].
        + unfold plus, mult; simpl; ring.
      - intros w _; apply continuity_pt_filterlim.
        apply (ex_derive_continuous (fun t => e * (g t * exp (- (e * a * t))))).
        apply ex_derive_scal, ex_derive_mult;
          [eexists; apply Hg|auto_derive; exact I].
      - assert (Hs : e * ((g1 w - e * a * g w) * exp (- (e * a * w))) <= 0).
        { specialize (Hb w); apply Rabs_le_between in Hb.
          pose proof (exp_pos (- (e * a * w))).
          rewrite <- Rmult_assoc; apply Rmult_le_0_r; [|lra].
          destruct He as [-> | ->]; lra. }
        nra. }
    intros u v Huv; split.
    - specialize (Hd 1 (or_introl eq_refl) u v Huv).
      apply Rmult_le_reg_r with (exp (- (1 * a * v))); [apply exp_pos|].
      replace (g u * exp (a * (v - u)) * exp (- (1 * a * v)))
        with (g u * exp (- (1 * a * u))); [lra|].
      rewrite (Rmult_assoc (g u)), <- exp_plus; do 2 f_equal; ring.
    - specialize (Hd (-1) (or_intror eq_refl) u v Huv).
      apply Rmult_le_reg_r with (exp (- (-1 * a * u))); [apply exp_pos|].
      replace (g v * exp (a * (v - u)) * exp (- (-1 * a * u)))
        with (g v * exp (- (-1 * a * v))); [lra|].
      rewrite (Rmult_assoc (g v)), <- exp_plus; do 2 f_equal; ring. }
  destruct (Rle_or_lt 0 s) as [Hs|Hs].
  - rewrite Rabs_pos_eq by exact Hs; destruct (Hm t (t + s) ltac:(lra)) as [H _].
    replace (t + s - t) with s in H by ring; exact H.
  - rewrite Rabs_left by exact Hs; destruct (Hm (t + s) t ltac:(lra)) as [_ H].
    replace (t - (t + s)) with (- s) in H by ring; exact H.
Qed.

Section Step.

Variables (c : R) (f f1 : R -> R).
Hypothesis Hc : 0 < c.
Hypothesis Hf : curve f.
Hypothesis Hcurved : curved c f f1.

Lemma half_nonneg t : 0 <= half f t.
Proof. pose proof (curve_bounds f Hf t); apply Rmin_glb; lra. Qed.

Lemma half_growth t s : half f (t + s) <= half f t * exp (sqrt c * Rabs s).
Proof.
  assert (Hs := sqrt_pos c); assert (He := exp_pos (sqrt c * Rabs s)).
  assert (Hb := slope_bound c f f1 Hcurved); assert (Hu := curve_bounds f Hf).
  assert (H1 : f (t + s) <= f t * exp (sqrt c * Rabs s)).
  { apply (growth f f1 (sqrt c)); [apply (slope_of c f f1 Hcurved)|apply Hu|exact Hs|].
    intros u; specialize (Hb u); rewrite Rabs_pos_eq by lra; apply Rle_trans with (1 := proj2 Hb).
    apply Rmult_le_compat_l; [exact Hs|apply Rmin_l]. }
  assert (H2 : 1 - f (t + s) <= (1 - f t) * exp (sqrt c * Rabs s)).
  { apply (growth (fun t => 1 - f t) (fun t => - f1 t) (sqrt c)).
    - intros u; replace (- f1 u) with (minus 0 (f1 u)) by (unfold minus, plus, opp; simpl; ring).
      apply (is_derive_minus (fun _ => 1) f u 0 (f1 u));
        [apply (is_derive_const 1)|apply (slope_of c f f1 Hcurved)].
    - intros u; specialize (Hu u); lra.
    - exact Hs.
    - intros u; specialize (Hb u); rewrite Rabs_Ropp, Rabs_pos_eq by lra.
      apply Rle_trans with (1 := proj2 Hb).
      apply Rmult_le_compat_l; [exact Hs|apply Rmin_r]. }
  unfold half, Rmin at 2; destruct (Rle_dec (f t) (1 - f t)).
  - apply Rle_trans with (f (t + s)); [apply Rmin_l|exact H1].
  - apply Rle_trans with (1 - f (t + s)); [apply Rmin_r|exact H2].
Qed.

Variables (n : nat) (x : nat -> R) (k l : R).

Let P := held f n x l.
Let C := lacking f n x l.
Let H := P + C.
Let W := slopes f1 n x l.
Let rho := ratio f f1 n x l.

Lemma P_nonneg : 0 <= P.
Proof.
  apply sum_nonneg; intros i _; pose proof (curve_bounds f Hf (x i - l)).
  destruct (Rle_dec _ _); lra.
Qed.

Lemma C_nonneg : 0 <= C.
Proof.
  apply sum_nonneg; intros i _; pose proof (curve_bounds f Hf (x i - l)).
  destruct (Rle_dec _ _); lra.
Qed.

Lemma H_halves : H = ∑_(i < n) half f (x i - l).
Proof.
  unfold H, P, C, held, lacking; rewrite <- sum_plus; apply sum_ext; intros i _.
  unfold half; destruct (Rle_dec (f (x i - l)) (/ 2)).
  - rewrite Rmin_left by lra; ring.
  - rewrite Rmin_right by lra; ring.
Qed.

Lemma W_bound : 0 <= W <= sqrt c * H.
Proof.
  rewrite H_halves, <- sum_scal; split; [apply sum_nonneg|apply sum_le];
    intros i _; apply (slope_bound c f f1 Hcurved).
Qed.

Lemma rho_spec : 0 <= rho <= sqrt c /\ rho * H = W.
Proof.
  assert (HW := W_bound); assert (HP := P_nonneg); assert (HC := C_nonneg).
  unfold rho, ratio; fold P C H W; destruct (Req_dec H 0) as [E|E].
  - rewrite E in HW |- *; assert (W = 0) as -> by lra.
    unfold Rdiv; rewrite !Rmult_0_l; pose proof (sqrt_pos c); lra.
  - assert (0 < H) by (unfold H in *; lra).
    split; [split|field; exact E].
    + apply Rmult_le_pos; [lra|now apply Rlt_le, Rinv_0_lt_compat].
    + apply Rle_div_l; [assumption|apply HW].
Qed.

(** ** The slopes of excess and model, along the step *)

Definition slopes_at s := ∑_(i < n) f1 (x i - (l + s)).

Lemma excess_slope s : is_derive (fun s => excess f n x k (l + s)) s (- slopes_at s).
Proof.
  unfold excess, slopes_at.
  replace (- ∑_(i < n) f1 (x i - (l + s)))
    with (minus (∑_(i < n) - f1 (x i - (l + s))) 0).
  - apply (is_derive_minus (fun s => ∑_(i < n) f (x i - (l + s))) (fun _ => k));
      [|apply (is_derive_const k)].
    clear P C H W rho; induction n as [|m IH]; simpl; [apply (is_derive_const 0)|].
    apply (is_derive_plus (fun s => ∑_(i < m) f (x i - (l + s))) (fun s => f (x m - (l + s))));
      [exact IH|].
    replace (- f1 (x m - (l + s))) with (scal (-1) (f1 (x m - (l + s))))
      by (unfold scal; simpl; unfold mult; simpl; ring).
    apply (is_derive_comp f (fun s => x m - (l + s)) s (f1 (x m - (l + s))) (-1));
      [apply (slope_of c f f1 Hcurved)|auto_derive; [exact I|ring]].
  - unfold minus, plus, opp; simpl.
    rewrite (sum_ext n _ (fun i => -1 * f1 (x i - (l + s)))) by (intros; ring).
    rewrite sum_scal; ring.
Qed.

(** The slopes change by at most [c H e^(sqrt c r)] times the way, up to the distance [r]. *)
Lemma slopes_change r s : Rabs s <= r ->
  Rabs (slopes_at s - W) <= c * H * exp (sqrt c * r) * Rabs s.
Proof.
  intros Hr; unfold slopes_at, W, slopes; rewrite <- sum_minus.
  eapply Rle_trans; [apply sum_abs|].
  replace (c * H * exp (sqrt c * r) * Rabs s)
    with (∑_(i < n) (c * exp (sqrt c * r) * Rabs s) * half f (x i - l))
    by (rewrite sum_scal, H_halves; ring).
  apply sum_le; intros i _.
  set (a := x i - l); set (m := c * (half f a * exp (sqrt c * r))).
  assert (Hm : forall u, Rabs u <= r -> c * half f (a + u) <= m).
  { intros u Hu; apply Rmult_le_compat_l; [lra|].
    apply Rle_trans with (1 := half_growth a u).
    apply Rmult_le_compat_l; [apply half_nonneg|apply exp_rising].
    apply Rmult_le_compat_l; [apply sqrt_pos|exact Hu]. }
  replace (c * exp (sqrt c * r) * Rabs s * half f a) with (m * Rabs s) by (unfold m; ring).
  replace (x i - (l + s)) with (a - s) by (unfold a; ring).
  destruct (Rle_or_lt 0 s) as [Hs|Hs].
  - rewrite (Rabs_pos_eq s Hs) in *; rewrite Rabs_minus_sym.
    replace (m * s) with (m * (a - (a - s))) by ring.
    apply (curvature c f f1 Hcurved); [lra|]; intros u Hu.
    replace u with (a + (u - a)) by ring; apply Hm; apply Rabs_le_between; lra.
  - rewrite (Rabs_left s Hs) in *.
    replace (m * - s) with (m * (a - s - a)) by ring.
    apply (curvature c f f1 Hcurved); [lra|]; intros u Hu.
    replace u with (a + (u - a)) by ring; apply Hm; apply Rabs_le_between; lra.
Qed.

Lemma exp_change u : Rabs (exp u - 1) <= Rabs u * exp (Rabs u).
Proof.
  destruct (Rle_or_lt 0 u) as [Hu|Hu].
  - pose proof (exp_rising 0 u Hu); rewrite exp_0 in *; rewrite !Rabs_pos_eq by lra.
    pose proof (exp_ineq1_le (- u)); rewrite exp_Ropp in *.
    assert (0 < exp u) by apply exp_pos.
    assert (Hm : exp u * (1 + - u) <= exp u * / exp u) by (apply Rmult_le_compat_l; lra).
    rewrite Rinv_r in Hm by lra; nra.
  - pose proof (exp_increasing u 0 Hu); rewrite exp_0 in *; rewrite !Rabs_left by lra.
    pose proof (exp_ineq1_le u); pose proof (exp_ineq1_le (- u)); nra.
Qed.

Definition model_slopes s := rho * (P * exp (- (rho * s)) + C * exp (rho * s)).

Lemma model_slope s : is_derive (model f f1 n x k l) s (- model_slopes s).
Proof.
  unfold model, model_slopes; fold P C rho; auto_derive; [exact I|ring].
Qed.

Lemma model_change r s : Rabs s <= r ->
  Rabs (model_slopes s - W) <= c * H * exp (sqrt c * r) * Rabs s.
Proof.
  intros Hr; destruct rho_spec as [[H0 H1] HW]; assert (HP := P_nonneg); assert (HC := C_nonneg).
  assert (Hs0 := Rabs_pos s).
  assert (Hu : forall u, Rabs u = rho * Rabs s ->
    Rabs (exp u - 1) <= sqrt c * Rabs s * exp (sqrt c * r)).
  { intros u Eu; eapply Rle_trans; [apply exp_change|]; rewrite Eu.
    apply Rmult_le_compat; [now apply Rmult_le_pos|apply Rlt_le, exp_pos| |].
    - apply Rmult_le_compat_r; lra.
    - apply exp_rising, Rmult_le_compat; lra. }
  assert (E1 : Rabs (rho * s) = rho * Rabs s) by (rewrite Rabs_mult, (Rabs_pos_eq rho); lra).
  pose proof (Hu (rho * s) E1) as Hp.
  pose proof (Hu (- (rho * s)) ltac:(now rewrite Rabs_Ropp)) as Hm.
  set (B := sqrt c * Rabs s * exp (sqrt c * r)) in *.
  assert (HB : 0 <= B) by (eapply Rle_trans; [apply Rabs_pos|exact Hp]).
  replace (model_slopes s - W)
    with (rho * (P * (exp (- (rho * s)) - 1) + C * (exp (rho * s) - 1)))
    by (rewrite <- HW; unfold model_slopes, H; ring).
  replace (c * H * exp (sqrt c * r) * Rabs s) with (sqrt c * (H * B))
    by (unfold B; rewrite <- (sqrt_sqrt c) at 4 by lra; ring).
  rewrite Rabs_mult, (Rabs_pos_eq rho) by lra.
  apply Rmult_le_compat; [lra|apply Rabs_pos|lra|].
  eapply Rle_trans; [apply Rabs_triang|].
  rewrite !Rabs_mult, (Rabs_pos_eq P), (Rabs_pos_eq C) by assumption.
  unfold H; nra.
Qed.

(** A function that vanishes at 0 and has a slope of at most [K |s|] is at most [K s^2 / 2]. *)
Lemma quadratic_bound (g g1 : R -> R) K r : (forall s, is_derive g s (g1 s)) -> g 0 = 0 ->
  (forall s, Rabs s <= Rabs r -> Rabs (g1 s) <= K * Rabs s) -> Rabs (g r) <= K * r ^ 2 / 2.
Proof.
  intros Hg H0 Hb.
  assert (Hd : forall e, e = 1 \/ e = -1 -> e * g r <= K * r ^ 2 / 2).
  { intros e He.
    destruct (MVT_gen (fun s => e * g s - K * s ^ 2 / 2) 0 r
      (fun s => e * g1 s - K * s)) as [w [Hw E]].
    - intros w _; apply (is_derive_minus (fun s => e * g s) (fun s => K * s ^ 2 / 2)).
      + apply is_derive_scal, Hg.
      + auto_derive; [exact I|field].
    - intros w _; apply continuity_pt_filterlim.
      apply (continuous_minus (fun s => e * g s) (fun s => K * s ^ 2 / 2)).
      + apply (continuous_scal_r e g), (ex_derive_continuous g); eexists; apply Hg.
      + apply (ex_derive_continuous (fun s => K * s ^ 2 / 2)); auto_derive; exact I.
    - rewrite H0 in E.
      assert (Hr : Rabs w <= Rabs r /\ 0 <= r * w /\ (r < 0 -> w <= 0) /\ (0 <= r -> 0 <= w)).
      { destruct (Rle_or_lt 0 r) as [Hr|Hr].
        - rewrite Rmin_left, Rmax_right in Hw by exact Hr.
          rewrite !Rabs_pos_eq by lra; repeat split; try lra; nra.
        - rewrite Rmin_right, Rmax_left in Hw by lra.
          rewrite !Rabs_left1 by lra; repeat split; try lra; nra. }
      destruct Hr as [Hr [_ [Hneg Hpos]]]; specialize (Hb w Hr).
      apply Rabs_le_between in Hb.
      enough ((e * g1 w - K * w) * (r - 0) <= 0) by lra.
      destruct (Rle_or_lt 0 r) as [Hr'|Hr'].
      + specialize (Hpos Hr'); rewrite (Rabs_pos_eq w) in Hb by exact Hpos.
        assert (e * g1 w - K * w <= 0) by (destruct He as [-> | ->]; lra); nra.
      + specialize (Hneg Hr'); rewrite (Rabs_left1 w) in Hb by exact Hneg.
        assert (0 <= e * g1 w - K * w) by (destruct He as [-> | ->]; lra); nra. }
  pose proof (Hd 1 (or_introl eq_refl)); pose proof (Hd (-1) (or_intror eq_refl)).
  apply Rabs_le_between; lra.
Qed.

Lemma excess_0 : excess f n x k (l + 0) = excess f n x k l.
Proof. now rewrite Rplus_0_r. Qed.

Lemma short_step_section delta : model f f1 n x k l delta = 0 ->
  Rabs (excess f n x k (l + delta)) <= c * delta ^ 2 * exp (sqrt c * Rabs delta) * (P + C).
Proof.
  intros Hd; set (E := exp (sqrt c * Rabs delta)).
  replace (c * delta ^ 2 * E * (P + C)) with ((2 * c * H * E) * delta ^ 2 / 2)
    by (unfold H; field).
  replace (excess f n x k (l + delta))
    with (excess f n x k (l + delta) - model f f1 n x k l delta) by (rewrite Hd; ring).
  apply (quadratic_bound (fun s => excess f n x k (l + s) - model f f1 n x k l s)
    (fun s => - slopes_at s - - model_slopes s)).
  - intros s; apply (is_derive_minus (fun s => excess f n x k (l + s)) (model f f1 n x k l));
      [apply excess_slope|apply model_slope].
  - rewrite excess_0; unfold model; rewrite !Rmult_0_r, Ropp_0, exp_0; ring.
  - intros s Hs; pose proof (slopes_change (Rabs delta) s Hs) as H1.
    pose proof (model_change (Rabs delta) s Hs) as H2; fold E in H1, H2.
    replace (- slopes_at s - - model_slopes s)
      with ((model_slopes s - W) - (slopes_at s - W)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]; rewrite Rabs_Ropp; lra.
Qed.

Lemma newton_step_section delta : excess f n x k l - W * delta = 0 ->
  Rabs (excess f n x k (l + delta))
  <= c * delta ^ 2 * exp (sqrt c * Rabs delta) * (P + C) / 2.
Proof.
  intros Hd; set (E := exp (sqrt c * Rabs delta)).
  replace (c * delta ^ 2 * E * (P + C) / 2) with ((c * H * E) * delta ^ 2 / 2)
    by (unfold H; field).
  replace (excess f n x k (l + delta))
    with (excess f n x k (l + delta) - (excess f n x k l - W * delta)) by (rewrite Hd; ring).
  apply (quadratic_bound (fun s => excess f n x k (l + s) - (excess f n x k l - W * s))
    (fun s => - slopes_at s - - W)).
  - intros s; apply (is_derive_minus (fun s => excess f n x k (l + s))
      (fun s => excess f n x k l - W * s)); [apply excess_slope|auto_derive; [exact I|ring]].
  - rewrite excess_0; ring.
  - intros s Hs; pose proof (slopes_change (Rabs delta) s Hs) as H1; fold E in H1.
    replace (- slopes_at s - - W) with (- (slopes_at s - W)) by ring.
    rewrite Rabs_Ropp; exact H1.
Qed.

End Step.

(** ** Statements *)

(** Excess and model agree to first order at 0, and the slopes of both change by at most
    [c (P + C) e^(sqrt c |delta|)] times the way. *)
Theorem short_step c f f1 n x k l delta : 0 < c -> curve f -> curved c f f1 ->
  model f f1 n x k l delta = 0 ->
  Rabs (excess f n x k (l + delta))
  <= c * delta ^ 2 * exp (sqrt c * Rabs delta) * (held f n x l + lacking f n x l).
Proof. intros Hc Hf H; now apply short_step_section. Qed.

(** For Newton's step the model is a line. *)
Theorem newton_step c f f1 n x k l delta : 0 < c -> curve f -> curved c f f1 ->
  excess f n x k l - slopes f1 n x l * delta = 0 ->
  Rabs (excess f n x k (l + delta))
  <= c * delta ^ 2 * exp (sqrt c * Rabs delta) * (held f n x l + lacking f n x l) / 2.
Proof. intros Hc Hf H; now apply newton_step_section. Qed.

(** A slope with a derivative bounded by [c * half f] satisfies the condition. *)
Lemma curvature_of_derivative c (f f1 f2 : R -> R) : (forall t, is_derive f1 t (f2 t)) ->
  (forall t, Rabs (f2 t) <= c * half f t) ->
  forall s t m, s <= t -> (forall u, s <= u <= t -> c * half f u <= m) ->
  Rabs (f1 t - f1 s) <= m * (t - s).
Proof.
  intros H1 H2 s t m Hst Hm.
  destruct (MVT_gen f1 s t f2) as [w [Hw E]].
  - intros; apply H1.
  - intros w _; apply continuity_pt_filterlim, (ex_derive_continuous f1); eexists; apply H1.
  - rewrite Rmin_left, Rmax_right in Hw by exact Hst.
    rewrite E, Rabs_mult, (Rabs_pos_eq (t - s)) by lra.
    apply Rmult_le_compat_r; [lra|]; apply Rle_trans with (1 := H2 w); auto.
Qed.

Theorem logistic_short_step : curved 1 logistic (fun t => logistic t * (1 - logistic t)).
Proof.
  assert (Hu := logistic_unit).
  assert (Hh : forall t, logistic t * (1 - logistic t) <= half logistic t).
  { intros t; specialize (Hu t); unfold half, Rmin; destruct (Rle_dec _ _); nra. }
  split.
  - apply logistic_slope.
  - intros t; rewrite sqrt_1, Rmult_1_l; split; [|apply Hh]; specialize (Hu t); nra.
  - apply (curvature_of_derivative 1 logistic _ (fun t =>
      logistic t * (1 - logistic t) * (1 - 2 * logistic t))).
    + intros t; assert (Hs := logistic_slope t).
      apply (is_derive_ext (fun t => logistic t - logistic t * logistic t));
        [intros u; change (logistic u - logistic u * logistic u
           = logistic u * (1 - logistic u)); ring|].
      evar_last.
      * apply (is_derive_minus logistic (fun t => logistic t * logistic t)); [exact Hs|].
        apply (is_derive_mult logistic logistic); [exact Hs|exact Hs|intros; apply Rmult_comm].
      * unfold minus, plus, opp, mult; simpl; ring.
    + intros t; rewrite Rmult_1_l; apply Rle_trans with (2 := Hh t).
      specialize (Hu t); rewrite Rabs_mult, (Rabs_pos_eq (logistic t * (1 - logistic t))) by nra.
      rewrite <- (Rmult_1_r (logistic t * (1 - logistic t))) at 2.
      apply Rmult_le_compat_l; [nra|apply Rabs_le_between; lra].
Qed.

(** The slope of the Laplace curve is [half] itself, [e^-|t| / 2]: it has a corner at 0,
    and one side at a time is enough. *)
Theorem laplace_short_step : curved 1 laplace (half laplace).
Proof.
  assert (Hh : forall t, half laplace t = exp (- Rabs t) / 2) by apply laplace_half.
  split.
  - apply laplace_slope.
  - intros t; rewrite sqrt_1, Rmult_1_l, Hh; pose proof (exp_pos (- Rabs t)); lra.
  - assert (Hneg : forall s t m, s <= t -> t <= 0 ->
      (forall u, s <= u <= t -> half laplace u <= m) ->
      Rabs (half laplace t - half laplace s) <= m * (t - s)).
    { intros s t m Hst Ht Hm; rewrite (Hh t), (Hh s).
      rewrite (Rabs_left1 t), (Rabs_left1 s), !Ropp_involutive by lra.
      destruct (MVT_gen (fun u => exp u / 2) s t (fun u => exp u / 2)) as [w [Hw E]].
      - intros; auto_derive; [exact I|field].
      - intros w _; apply continuity_pt_filterlim.
        apply (ex_derive_continuous (fun u => exp u / 2)); auto_derive; exact I.
      - rewrite Rmin_left, Rmax_right in Hw by exact Hst; rewrite E.
        specialize (Hm w Hw); rewrite Hh, Rabs_left1, Ropp_involutive in Hm by lra.
        pose proof (exp_pos w); rewrite Rabs_pos_eq by nra.
        apply Rmult_le_compat_r; lra. }
    assert (Hopp : forall t, half laplace (- t) = half laplace t)
      by (intros; now rewrite !Hh, Rabs_Ropp).
    assert (Hpos : forall s t m, s <= t -> 0 <= s ->
      (forall u, s <= u <= t -> half laplace u <= m) ->
      Rabs (half laplace t - half laplace s) <= m * (t - s)).
    { intros s t m Hst Hs Hm; rewrite <- (Hopp t), <- (Hopp s), Rabs_minus_sym.
      replace (t - s) with (- s - - t) by ring; apply Hneg; [lra|lra|].
      intros u Hu; rewrite <- Hopp; apply Hm; lra. }
    intros s t m Hst Hm.
    assert (Hm' : forall u, s <= u <= t -> half laplace u <= m)
      by (intros u Hu; specialize (Hm u Hu); lra).
    destruct (Rle_or_lt t 0) as [Ht|Ht]; [now apply Hneg|].
    destruct (Rle_or_lt 0 s) as [Hs|Hs]; [now apply Hpos|].
    pose proof (Hneg s 0 m ltac:(lra) ltac:(lra) ltac:(intros; apply Hm'; lra)) as H1.
    pose proof (Hpos 0 t m ltac:(lra) ltac:(lra) ltac:(intros; apply Hm'; lra)) as H2.
    replace (half laplace t - half laplace s)
      with ((half laplace t - half laplace 0) + (half laplace 0 - half laplace s)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]; lra.
Qed.
